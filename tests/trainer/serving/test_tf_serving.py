"""TensorFlow Serving's protocol: forms of a request, and the form of its answer."""

import base64
import json

import numpy as np
import pytest

from trainer import errors
from trainer.serving import loaded_model, tf_serving

X = {"dtype": "float32", "shape": [None, 2]}
NAME = {"dtype": "string", "shape": [None]}


def model(**inputs):
  described = {"inputs": inputs, "outputs": {"class": {"dtype": "int64", "shape": [None]}}}
  description = {"signatures": {loaded_model.DEFAULT: described}, "class_names": None}
  return loaded_model.LoadedModel("out/17", description, {loaded_model.DEFAULT: None}, {})


def read(loaded, **body):
  return tf_serving.read_predict(json.dumps(body).encode(), loaded)


@pytest.mark.parametrize(
  "body",
  [
    {"instances": [{"x": [1, 2]}, {"x": [3, 4]}]},
    {"instances": [[1, 2], [3, 4]]},
    {"inputs": {"x": [[1, 2], [3, 4]]}},
    {"inputs": [[1, 2], [3, 4]]},
  ],
)
def test_rows_and_columns_are_the_same_features(body):
  found = read(model(x=X), **body)
  np.testing.assert_array_equal(found.features["x"], np.float32([[1, 2], [3, 4]]))


def test_bytes_are_decoded_in_rows_and_columns():
  encoded = {"b64": base64.b64encode(b"\x00ab\x00").decode()}
  for body in ({"instances": [encoded]}, {"inputs": [encoded]}, {"instances": [{"n": encoded}]}):
    assert read(model(n=NAME), **body).features["n"].tolist() == [b"\x00ab\x00"]


@pytest.mark.parametrize(
  ("body", "outputs", "answer"),
  [
    ("instances", {"a": [1, 2]}, {"predictions": [1, 2]}),
    (
      "instances",
      {"a": [1, 2], "b": [3, 4]},
      {"predictions": [{"a": 1, "b": 3}, {"a": 2, "b": 4}]},
    ),
    ("inputs", {"a": [1, 2]}, {"outputs": [1, 2]}),
    ("inputs", {"a": [1, 2], "b": [3, 4]}, {"outputs": {"a": [1, 2], "b": [3, 4]}}),
  ],
)
def test_an_answer_has_the_form_of_its_request(body, outputs, answer):
  call = read(model(x=X), **{body: [[1, 2], [3, 4]]})
  written = call.write({name: np.array(value) for name, value in outputs.items()})
  assert json.loads(written) == answer


@pytest.mark.parametrize(
  ("body", "message"),
  [
    ({}, 'Expected one of "instances" and "inputs".'),
    ({"instances": [], "inputs": []}, 'Expected one of "instances" and "inputs".'),
    ({"instances": []}, 'Expected "instances", a list of at least one example.'),
    ({"instances": [{"x": [1, 2]}, {"y": 3}]}, r'"instances"\[1\] has y, and the first one has x'),
    ({"instances": [{"x": [1, 2]}, {}]}, r'"instances"\[1\] has nothing, and the first one has x'),
    ({"inputs": {"x": {"b64": "?"}}}, '"b64" is no base64'),
    ({"inputs": {"x": {"b64": 3}}}, 'Expected numbers, texts, or bytes as {"b64": "..."}'),
  ],
)
def test_requests_that_cannot_be_used_are_refused(body, message):
  with pytest.raises(errors.InputError, match=message):
    read(model(x=X), **body)


def test_a_value_without_a_name_needs_a_model_of_one_input():
  with pytest.raises(errors.InputError, match="The model takes n, x: give each by its name"):
    read(model(x=X, n=NAME), instances=[[1, 2]])


def test_metadata_have_tensorflows_types_and_free_sizes():
  told = tf_serving.metadata("m", model(x=X))
  assert told["model_spec"] == {"name": "m", "signature_name": "", "version": "17"}
  described = told["metadata"]["signature_def"]["signature_def"][loaded_model.DEFAULT]
  assert described["inputs"]["x"]["dtype"] == "DT_FLOAT"
  sizes = [dim["size"] for dim in described["inputs"]["x"]["tensor_shape"]["dim"]]
  assert (sizes, described["method_name"]) == (["-1", "2"], "tensorflow/serving/predict")
