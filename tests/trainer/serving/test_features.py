"""Batches of features: unusable examples have a reason, and the others stay in order."""

import numpy as np
import pytest
import tensorflow as tf

from tests.input_pipelines import tiny_data
from trainer import errors
from trainer.serving import examples, features, loaded_model

INPUTS = {"x": {"dtype": "float32", "shape": [None, 2]}, "n": {"dtype": "int64", "shape": [None]}}


@pytest.fixture
def loaded():
  """A model of two features, without an engine that runs."""
  description = {"signatures": {loaded_model.DEFAULT: {"inputs": INPUTS}}}
  return loaded_model.LoadedModel("1", description, {loaded_model.DEFAULT: None}, {})


def example(name, x, n=1):
  return examples.Example(name, {"x": x, "n": n})


def test_batches_keep_the_order_whatever_the_number_of_threads(loaded):
  given = [example(str(number), [number, 0]) for number in range(7)]
  for threads in (1, 3):
    found = list(features.prepare_batches(given, loaded, batch_size=3, threads=threads))
    assert [batch.names for batch in found] == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert [batch.features["x"][:, 0].tolist() for batch in found] == [[0, 1, 2], [3, 4, 5], [6]]


def test_unusable_examples_have_a_reason_and_the_others_features(loaded):
  given = [
    example("good", [1, 2]),
    example("long", [1, 2, 3]),
    examples.Example("read", error="no such line"),
    examples.Example("file", {"n": 1}, {"x": "no such file"}),
    example("fraction", [5, 6], n=1.5),
    example("also good", [3, 4]),
  ]
  [batch] = features.prepare_batches(given, loaded, batch_size=10)
  assert list(batch.errors) == [1, 2, 3, 4]
  assert "its shape is [1, 3]" in batch.errors[1]
  assert batch.errors[2] == "no such line"
  assert batch.errors[3].startswith("Cannot read no such file")
  assert "1.5 at [0] is no int64" in batch.errors[4]
  np.testing.assert_array_equal(batch.features["x"], [[1, 2], [3, 4]])


def test_a_batch_of_unusable_examples_has_no_features(loaded):
  [batch] = features.prepare_batches([examples.Example("a", error="no")], loaded, batch_size=10)
  assert (batch.errors, batch.features) == ({0: "no"}, {})


def test_records_have_the_values_of_the_features(loaded):
  found = features.parse_example(tiny_data.example(x=[1.0, 2.0], n=[7], more=[1]), loaded)
  assert np.shape(found["x"]) == (2,)
  assert np.asarray(found["n"]).tolist() == 7


@pytest.mark.parametrize(
  ("record", "message"),
  [
    (b"\xff", "it is no tf.train.Example"),
    (tiny_data.example(x=[1.0, 2.0]), "it has no feature 'n'; it has x"),
    (tiny_data.example(z=[1.0]), "it has no feature 'n', 'x'; it has z"),
    (tiny_data.example(x=[1.0], n=[7]), r"'x' has 1 values; the model takes float32\[2\]"),
    (tiny_data.example(x=b"12", n=[7]), r"'x' has 1 values; the model takes float32\[2\]"),
  ],
)
def test_records_that_do_not_fit_are_refused(record, message, loaded):
  with pytest.raises(errors.InputError, match=message):
    features.parse_example(record, loaded)


def of_shape(dtype, *shape):
  """A model of one feature "v"."""
  inputs = {"v": {"dtype": dtype, "shape": list(shape)}}
  description = {"signatures": {loaded_model.DEFAULT: {"inputs": inputs}}}
  return loaded_model.LoadedModel("1", description, {loaded_model.DEFAULT: None}, {})


@pytest.mark.parametrize(
  ("shape", "values", "expected"),
  [((None, None), [1, 2, 3], (3,)), ((None, 2, None), [1, 2, 3, 4], (2, 2))],
)
def test_an_axis_of_any_size_takes_what_there_is(shape, values, expected):
  record = tiny_data.example(v=[float(value) for value in values])
  found = features.parse_example(record, of_shape("float32", *shape))
  assert np.shape(found["v"]) == expected


def test_values_that_fill_no_shape_are_refused():
  loaded = of_shape("float32", None, 2, None)
  with pytest.raises(
    errors.InputError, match=r"'v' has 3 values; the model takes float32\[2, None\]"
  ):
    features.parse_example(tiny_data.example(v=[1.0, 2.0, 3.0]), loaded)


def test_a_second_text_is_not_dropped():
  two = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"]))
  record = tf.train.Example(features=tf.train.Features(feature={"v": two})).SerializeToString()
  with pytest.raises(errors.InputError, match="'v' has 2 values; expected one"):
    features.parse_example(record, of_shape("string", None))
  assert features.parse_example(record, of_shape("string", None, 2))["v"] == [b"a", b"b"]
