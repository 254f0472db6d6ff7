"""Marks of datasets: decoders of features, and the user's own values."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.inputs import decodable


def decode(encoded):
  return encoded


@pytest.fixture
def dataset():
  return tf.data.Dataset.range(2)


def test_a_changed_dataset_has_no_mark_unless_it_is_kept(dataset):
  decodable.mark_decodable(dataset, {"x": decode, "y": decode})
  changed = dataset.map(lambda x: x)
  assert decodable.decoders_of(changed) == {}
  decodable.keep_mark(dataset, changed)
  assert decodable.decoders_of(changed) == {"x": decode, "y": decode}
  fewer = decodable.keep_mark_without(dataset, dataset.take(1), "x")
  assert decodable.decoders_of(fewer) == {"y": decode}
  assert decodable.raw_of(dataset) is None


def test_examples_have_the_types_of_an_exports_input(dataset):
  examples = {
    "whole": range(100),
    "maybe": [1, 2],
    "yes": [True, False],
    "text": np.array(["a", "ü"]),
  }
  decodable.mark_raw(dataset, examples, dict, optional=["maybe"])
  raw = decodable.raw_of(dataset)
  assert {name: str(array.dtype) for name, array in raw.examples.items()} == {
    "whole": "int64",
    "maybe": "float64",  # a missing number is NaN
    "yes": "int64",
    "text": "object",
  }
  assert raw.examples["text"].tolist() == [b"a", "ü".encode()]
  assert len(raw.examples["whole"]) == 16
  assert decodable.decoders_of(dataset) == {}


def test_columns_without_a_feature_make_the_other_features(dataset):
  decodable.mark_raw(dataset, {"a": [1]}, lambda columns: {"x": columns["a"], "w": 2})
  fewer = decodable.keep_mark_without(dataset, dataset.take(1), "w")
  assert decodable.raw_of(fewer).to_features({"a": 5}) == {"x": 5}


@pytest.mark.parametrize(
  ("examples", "function", "optional", "message"),
  [
    ({}, dict, (), "optional names among none"),
    ({"a": [1]}, None, (), "a function of them"),
    ({"a": [1]}, dict, ["b"], r"optional names among a; got .* and \['b'\]"),
    ({"a": 3}, dict, (), r"examples\['a'\] has the shape \[\] and the type int64"),
    ({"a": []}, dict, (), r"the shape \[0\] and the type float64: expected numbers or texts"),
  ],
)
def test_marks_that_cannot_work_are_refused(examples, function, optional, message, dataset):
  with pytest.raises(errors.SettingError, match=message):
    decodable.mark_raw(dataset, examples, function, optional)
