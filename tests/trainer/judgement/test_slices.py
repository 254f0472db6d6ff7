"""Parts of an evaluation set: by values, by ranges of numbers, and their figures."""

import numpy as np

from trainer.judgement import slices
from trainer.reporting.evaluation_reports import NUMBERS


def describe(feature, right=None, kind="classes"):
  label = np.zeros(len(feature))
  predicted = label + (0 if right is None else ~np.array(right, bool))
  observed = {"label": label, "predicted": predicted}
  return slices.describe(kind, observed, {"x": feature}, resamples=10, confidence=0.9, seed=1)["x"]


def test_each_value_is_a_part_with_its_own_accuracy():
  found = describe([b"b", b"a", b"b", b"b"], right=[True, False, True, False])
  assert [(part["value"], part["examples"]) for part in found] == [("a", 1), ("b", 3)]
  assert [part["accuracy"]["value"] for part in found] == [0.0, 2 / 3]


def test_rare_values_beyond_twenty_are_one_part():
  found = describe([f"{number:02d}" for number in range(23)] + ["22"])
  assert len(found) == 21
  assert (found[-1]["value"], found[-1]["examples"]) == ("3 other values", 3)
  assert found[19] == {**found[19], "value": "22", "examples": 2}


def test_many_numbers_have_ranges_and_nan_its_own_part():
  found = describe([*map(float, range(41)), np.nan])
  assert [(part["value"], part["examples"]) for part in found] == [
    ("0 to 10", 11),
    ("10 to 20", 10),
    ("20 to 30", 10),
    ("30 to 40", 10),
    ("missing", 1),
  ]


def test_a_regression_has_the_mean_absolute_error():
  observed = {"label": np.array([1.0, 2.0, 3.0]), "predicted": np.array([2.0, np.nan, 3.5])}
  [found] = slices.describe(NUMBERS, observed, {"x": ["a"] * 3}, 10, 0.9, 1)["x"]
  assert (found["examples"], found["mae"]["value"]) == (3, 0.75)  # the NaN does not count


def test_missing_values_are_a_part():
  found = describe(["b", None, "b"])
  assert [(part["value"], part["examples"]) for part in found] == [("b", 2), ("missing", 1)]
  found = describe([1, None, 1])
  assert [(part["value"], part["examples"]) for part in found] == [("1", 2), ("missing", 1)]
