"""Tensors of the Open Inference Protocol, in JSON and in binary form."""

import ml_dtypes
import numpy as np
import pytest

from tests.trainer.serving.open_inference_calls import answer
from trainer import errors
from trainer.outputs import engines
from trainer.serving import loaded_model, open_inference


class Echo(engines.Engine):
  """Returns what it is given."""

  name = "echo"

  def predict_batch(self, features):
    return dict(features)


def echo(**dtypes):
  """Returns a model whose outputs are its inputs, each of shape [n, 2]."""
  specs = {name: {"dtype": dtype, "shape": [None, 2]} for name, dtype in dtypes.items()}
  described = {"signatures": {"serving_default": {"inputs": specs, "outputs": specs}}}
  return loaded_model.LoadedModel("models/3", described, {"serving_default": Echo()}, {})


def tensor(name, array, datatype, data=None, **parameters):
  """Returns the JSON of a tensor; binary unless it has data."""
  found = {"name": name, "shape": list(array.shape), "datatype": datatype}
  if data is not None:
    return {**found, "data": data}
  return {**found, "parameters": {"binary_data_size": array.nbytes, **parameters}}


NUMBERS = {
  "BOOL": np.bool_,
  "UINT8": np.uint8,
  "UINT64": np.uint64,
  "INT16": np.int16,
  "INT64": np.int64,
  "FP16": np.float16,
  "BF16": ml_dtypes.bfloat16,
  "FP32": np.float32,
  "FP64": np.float64,
}


@pytest.mark.parametrize("datatype", NUMBERS)
def test_numbers_in_both_forms(datatype):
  kind = np.dtype(NUMBERS[datatype])
  array = np.array([[0, 1], [1, 0], [1, 1]]).astype(kind)
  if kind.kind in "iu":
    array[0, 0] = min(np.iinfo(kind).max, np.iinfo(np.int64).max)
  loaded = echo(x=kind.name)
  _, found, content = answer(
    loaded,
    {"inputs": [tensor("x", array, datatype)], "parameters": {"binary_data_output": True}},
    array.tobytes(),
  )
  assert found["outputs"] == [tensor("x", array, datatype)]
  assert content == array.tobytes()
  for data in (array.tolist(), array.ravel().tolist()):
    written, found, content = answer(loaded, {"inputs": [tensor("x", array, datatype, data)]})
    expected = tensor("x", array, datatype, array.ravel().tolist())
    assert (found["outputs"], content) == ([expected], b"")
    assert written.media_type == "application/json"


def test_texts_in_both_forms():
  texts = np.array([["a", "é\0"], ["", "long " * 90]], object)
  content = b"".join(len(each).to_bytes(4, "little") + each for each in map(str.encode, texts.flat))
  sent = {"name": "x", "shape": [2, 2], "datatype": "BYTES"}
  loaded = echo(x="string")
  _, found, _ = answer(loaded, {"inputs": [{**sent, "data": texts.tolist()}]})
  assert found["outputs"] == [{**sent, "data": texts.ravel().tolist()}]
  sized = {**sent, "parameters": {"binary_data_size": len(content)}}
  outputs = [{"name": "x", "parameters": {"binary_data": True}}]
  written, found, rest = answer(loaded, {"inputs": [sized], "outputs": outputs}, content)
  assert (found["outputs"], rest) == ([sized], content)
  assert written.media_type == "application/octet-stream"


def test_an_answer_of_both_forms():
  arrays = [np.float32([[1, 2]]), np.int64([[3, 4]])]
  inputs = [tensor("a", arrays[0], "FP32"), tensor("b", arrays[1], "INT64")]
  message = {
    "id": "r1",
    "inputs": inputs,
    "outputs": [{"name": "b"}, {"name": "a", "parameters": {"binary_data": True}}],
  }
  _, found, content = answer(
    echo(a="float32", b="int64"), message, *(array.tobytes() for array in arrays)
  )
  assert found == {
    "model_name": "echo",
    "model_version": "3",
    "id": "r1",
    "outputs": [tensor("b", arrays[1], "INT64", [3, 4]), inputs[0]],
  }
  assert content == arrays[0].tobytes()


X = np.float32([[1, 2]])


GOOD = tensor("x", X, "FP32", [1, 2])


BINARY = tensor("x", X, "FP32")


@pytest.mark.parametrize(
  ("message", "tensors", "wrong"),
  [
    ({}, (), "'inputs' is missing in it"),
    ({"inputs": [{"name": "x"}]}, (), r"'shape' is missing in \['inputs'\]\[0\]"),
    ({"inputs": [{**GOOD, "shape": [1, -2]}]}, (), r"\[1, -2\]: expected sizes of 0 or more"),
    ({"inputs": [{**GOOD, "shape": [2, 2]}]}, (), r"2 values: its shape \[2, 2\] has 4"),
    ({"inputs": [{**GOOD, "shape": [2, 1]}]}, (), r"float32\[n, 2\]; its shape is \[2, 1\]"),
    ({"inputs": [{**GOOD, "shape": [0, 2], "data": []}]}, (), "There is no example"),
    ({"inputs": [{**GOOD, "shape": [0, 10**30], "data": []}]}, (), "The shape of 'x' is"),
    ({"inputs": [{**GOOD, "shape": [1] * 99 + [2]}]}, (), "The shape of 'x' is"),
    ({"inputs": [{**GOOD, "datatype": "FLOAT"}]}, (), "'FLOAT': expected one of BOOL, UINT8"),
    ({"inputs": [{**GOOD, "datatype": "FP64"}]}, (), "is FP64: the model takes FP32"),
    ({"inputs": [{**GOOD, "data": [[1], [1, 2]]}]}, (), "\"data\" of 'x' is no tensor"),
    ({"inputs": [{**GOOD, "data": ["1", "2"]}]}, (), "'x' must be float32"),
    ({"inputs": [{**GOOD, "data": [1, None]}]}, (), "'x' must be float32"),
    ({"inputs": [{**GOOD, "data": [1, float("nan")]}]}, (), "nan at .0, 1.: expected finite"),
    ({"inputs": [GOOD, GOOD]}, (), "has 'x' twice"),
    ({"inputs": [{**GOOD, "name": "y"}]}, (), "The model takes x; 'x' is missing"),
    ({"inputs": [{**BINARY, "data": [1, 2]}]}, (X.tobytes(),), 'one of "data" and "binary_data'),
    ({"inputs": [{**BINARY, "parameters": 1}]}, (X.tobytes(),), "of 'x' is 1: expected an object"),
    ({"inputs": [BINARY]}, (b"1234567",), "is 8: expected at most the 7 bytes"),
    ({"inputs": [BINARY]}, (X.tobytes(), b"1"), "1 bytes follow the last binary input"),
    ({"inputs": [{**BINARY, "shape": [3, 2]}]}, (X.tobytes(),), "is 8: its shape .* has 24 bytes"),
    ({"inputs": [BINARY]}, (np.float32([1, np.inf]).tobytes(),), "is inf at .0, 1."),
    ({"inputs": [GOOD], "outputs": [{"name": "z"}]}, (), "no output 'z'; it has x"),
    ({"inputs": [GOOD], "outputs": ["x"]}, (), 'a list of objects with a "name"'),
    (
      {"inputs": [GOOD], "parameters": {"sequence_id": 7}},
      (),
      "the request has the parameter 'sequence_id'",
    ),
    ({"inputs": [GOOD], "parameters": {"signature_name": "z"}}, (), "expected one of serving_def"),
    (
      {"inputs": [GOOD], "outputs": [{"name": "x", "parameters": {"classification": 3}}]},
      (),
      "'x' has the parameter 'classification', of an extension that the server does not have",
    ),
  ],
)
def test_requests_that_cannot_be_used(message, tensors, wrong):
  with pytest.raises(errors.OctetError, match=wrong) as caught:
    answer(echo(x="float32"), message, *tensors)
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", ["-1", "99", "x", "²", "", "9" * 5000])
def test_a_wrong_size_of_the_json(size):
  with pytest.raises(
    errors.InputError, match="expected the bytes of the JSON, at most the body's 2"
  ):
    open_inference.read_infer(b"{}", echo(x="float32"), "echo", size)


@pytest.mark.parametrize("content", [b"\1", b"\1\0\0\0", b"\1\0\0\0a\5\0\0\0abc"])
def test_binary_texts_that_are_cut_off(content):
  sent = {"name": "x", "shape": [1, 2], "datatype": "BYTES"}
  sized = {**sent, "parameters": {"binary_data_size": len(content)}}
  with pytest.raises(errors.InputError, match="end within an element"):
    answer(echo(x="string"), {"inputs": [sized]}, content)


@pytest.mark.parametrize("data", [[["a"], ["a", "b"]], [1, "a"], [None, "a"]])
def test_what_is_no_text(data):
  sent = {"name": "x", "shape": [1, 2], "datatype": "BYTES", "data": data}
  with pytest.raises(errors.InputError, match=r"'x' must be string\[n, 2\]: it has .* values"):
    answer(echo(x="string"), {"inputs": [sent]})
