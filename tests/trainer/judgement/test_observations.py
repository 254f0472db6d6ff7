"""What is observed of an example, in the forms in which models predict and inputs label."""

import numpy as np
import pyarrow
import pytest

from trainer import errors
from trainer.judgement import observations


def observe(predictions, labels, **settings):
  found = observations.Observations(
    settings.get("label"), settings.get("prediction"), settings.get("slices", ())
  )
  ((observed, _),) = found.watch([(predictions, ({"x": np.float32(1)}, labels))])
  return found.kind, observed


@pytest.mark.parametrize(
  "prediction, predicted, confidence, of_label",
  [
    ({"class": np.int32(1), "probabilities": np.array([0.25, 0.75])}, 1, 0.75, 0.25),
    ({"probabilities": np.array([0.25, 0.75], np.float32)}, 1, 0.75, 0.25),
    ({"class_ids": np.array([1]), "probabilities": np.array([0.25, 0.75])}, 1, 0.75, 0.25),
    ({"probabilities": np.array([0.75])}, 1, 0.75, 0.25),
    ({"class": np.int64(1)}, 1, np.nan, np.nan),
    ({"class": np.int64(0), "probabilities": np.array([np.nan, 1])}, -1, np.nan, np.nan),
  ],
)
def test_classes(prediction, predicted, confidence, of_label):
  kind, observed = observe(prediction, np.int64(0))
  assert (kind, observed.label, observed.predicted) == ("classes", 0, predicted)
  np.testing.assert_equal([observed.confidence, observed.of_label], [confidence, of_label])


def test_numbers():
  kind, observed = observe({"price": np.array([2.5])}, np.float32(2))
  assert (kind, observed.label, observed.predicted) == ("numbers", 2.0, 2.5)
  weighted = observations.Observations(None, None, ())
  pair = {"y": np.float32(1)}, ({"x": np.float32(1)}, np.float32(2), np.float32(0.5))
  assert [observed.label for observed, _ in weighted.watch([pair])] == [2]
  _, observed = observe(np.float32(np.inf), np.int64(2))
  assert np.isnan(observed.predicted)


def test_a_label_of_several_is_named():
  labels = {"age": np.int32(1), "sex": np.int32(0)}
  _, observed = observe({"class": np.int32(1)}, labels, label="sex")
  assert observed.label == 0
  with pytest.raises(
    errors.SettingError, match="the labels are age, sex; got None: name the label"
  ):
    observe({"class": np.int32(1)}, labels)


@pytest.mark.parametrize(
  "labels, error, message",
  [
    (np.int32(-1), errors.InputError, "the label -1 is no class"),
    (np.zeros(3, np.int32), errors.SettingError, r"its shape is \[3\]"),
  ],
)
def test_labels_that_are_none(labels, error, message):
  with pytest.raises(error, match=message):
    observe({"class": np.int32(1)}, labels)


BOTH = {"class": np.int32(1), "probabilities": np.array([0.25, 0.75]), "color": np.int64(3)}


@pytest.mark.parametrize("label", [np.int64(1), np.float32(1)])
@pytest.mark.parametrize("name", ["class", "probabilities"])
def test_a_named_class_is_a_class(name, label):
  kind, observed = observe(BOTH, label, prediction=name)
  assert (kind, observed.label, observed.predicted) == ("classes", 1, 1)
  assert observed.of_label == 0.75


def test_one_class_of_several_is_named():
  kind, observed = observe(BOTH, np.int32(2), prediction="color")
  assert (kind, observed.label, observed.predicted, observed.probabilities) == (
    "classes",
    2,
    3,
    None,
  )
  both = BOTH | {"price": np.float32(2.5)}
  assert observe(both, np.float32(2), prediction="price")[0] == "numbers"


def test_float_labels_of_classes():
  prediction = {"class": np.int32(1), "probabilities": np.array([0.25, 0.75])}
  assert observe(prediction, np.float32(1))[0] == "classes"
  with pytest.raises(errors.InputError, match="the label 0.5 is no class.* name a predicted"):
    observe(prediction, np.float32(0.5))


def test_slices_are_features_or_columns():
  rows = {"city": pyarrow.chunked_array([["Rome", None]]), "x": [7.0, 8.0]}
  found = observations.Observations(None, None, ["city", "x"], rows)
  pairs = [({"class": np.int32(1)}, ({"x": np.float32(1)}, np.int32(1)))] * 3
  with pytest.raises(errors.SettingError, match="more examples than the 2 rows"):
    list(found.watch(pairs))
  assert found.slices == {"city": ["Rome", None], "x": [1.0, 1.0]}
  assert found.row(1) == {"city": None, "x": 8.0}
