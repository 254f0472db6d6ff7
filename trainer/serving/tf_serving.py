"""TensorFlow Serving's REST protocol: reads its requests, and writes its answers.

    {"instances": [{"image": ...}, ...]}  or  {"instances": [..., ...]}         an example each
        → {"predictions": [{"class": 3, ...}, ...]}
    {"inputs": {"image": [...]}}  or  {"inputs": [...]}         features of all examples
        → {"outputs": {"class": [3, ...], ...}}
    {"examples": [{"image": ...}, ...]}                         :classify
        → {"result": [[["ant", 0.9], ["bee", 0.1]], ...]}

Bytes are {"b64": "..."}. "signature_name" is serving_default, another one of the model's own,
from_bytes, from_raw or from_examples. In from_raw, null is a missing value.
"""

import base64
import binascii
import functools
import json

from trainer import errors
from trainer.io import json_form
from trainer.outputs import predictions, signatures
from trainer.serving import calls
from trainer.serving.loaded_model import DEFAULT, LoadedModel


def read_predict(body: bytes, loaded: LoadedModel) -> calls.Call:
  """Reads the body of a request to :predict; InputError if the model cannot use it."""
  message = _message(body)
  signature = message.get("signature_name", DEFAULT)
  inputs = list(calls.inputs_of(signature, loaded))
  if ("instances" in message) == ("inputs" in message):
    raise errors.InputError('Expected one of "instances" and "inputs".')
  by_row = "instances" in message
  if by_row:
    columns = _columns_of_rows(message["instances"], inputs)
  else:
    columns = message["inputs"]
    if not isinstance(columns, dict) or "b64" in columns:
      columns = {_only(inputs): columns}
  columns = {name: _with_bytes(value) for name, value in columns.items()}
  return calls.prepare(signature, columns, loaded, functools.partial(_write_predict, by_row))


def read_classify(body: bytes, loaded: LoadedModel) -> calls.Call:
  """Reads the body of a request to :classify; InputError if the model cannot use it."""
  described = loaded.description["signatures"]
  if signatures.CLASSIFY not in described or signatures.CLASSIFY in loaded.engines:
    raise errors.InputError("The model has no signature 'classify': its classes have no names.")
  signature = loaded.for_users
  inputs = list(described[signature]["inputs"])
  columns = _columns_of_rows(_message(body).get("examples"), inputs, "examples")
  columns = {name: _with_bytes(value) for name, value in columns.items()}
  write = functools.partial(_write_classify, loaded.class_names)
  return calls.prepare(signature, columns, loaded, write)


def status(loaded: LoadedModel) -> dict:
  """Returns the state of the loaded version of a model."""
  state = {
    "version": loaded.version,
    "state": "AVAILABLE",
    "status": {"error_code": "OK", "error_message": ""},
  }
  return {"model_version_status": [state]}


def metadata(name: str, loaded: LoadedModel) -> dict:
  """Returns the signatures of a model."""
  described = {
    signature: {
      "inputs": {key: _tensor_info(key, info) for key, info in parts["inputs"].items()},
      "outputs": {key: _tensor_info(key, info) for key, info in parts["outputs"].items()},
      "method_name": "tensorflow/serving/"
      + ("classify" if signature == signatures.CLASSIFY else "predict"),
    }
    for signature, parts in loaded.description["signatures"].items()
  }
  return {
    "model_spec": {"name": name, "signature_name": "", "version": loaded.version},
    "metadata": {"signature_def": {"signature_def": described}},
  }


def _tensor_info(name, info):
  dtype, shape = info["dtype"], info["shape"]
  dims = [{"size": str(-1 if size is None else size), "name": ""} for size in shape or ()]
  return {
    "dtype": "DT_" + {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper()),
    "tensor_shape": {"dim": dims, "unknown_rank": shape is None},
    "name": name,
  }


def _message(body):
  return json_form.parse(body, dict, "The body", "send a JSON object")


def _write_predict(by_row, outputs):
  columns = {name: predictions.to_json(array) for name, array in outputs.items()}
  single = len(columns) == 1
  if not by_row:
    return _answer({"outputs": next(iter(columns.values())) if single else columns})
  if single:
    return _answer({"predictions": next(iter(columns.values()))})
  rows = zip(*columns.values(), strict=True)
  return _answer({"predictions": [dict(zip(columns, row, strict=True)) for row in rows]})


def _write_classify(class_names, outputs):
  scores = predictions.to_json(outputs["probabilities"])
  return _answer(
    {"result": [[list(pair) for pair in zip(class_names, row, strict=True)] for row in scores]}
  )


def _answer(value):
  return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _columns_of_rows(rows, inputs, key="instances"):
  if not isinstance(rows, list) or not rows:
    raise errors.InputError(f'Expected "{key}", a list of at least one example.')
  if not all(isinstance(row, dict) and "b64" not in row for row in rows):
    return {_only(inputs): rows}
  names = set(rows[0])
  for place, row in enumerate(rows):
    if set(row) != names:
      raise errors.InputError(
        f'"{key}"[{place}] has {", ".join(sorted(row)) or "nothing"}, and the first one has '
        f"{', '.join(sorted(names)) or 'nothing'}."
      )
  return {name: [row[name] for row in rows] for name in rows[0]}


def _only(inputs):
  if len(inputs) != 1:
    raise errors.InputError(f"The model takes {', '.join(sorted(inputs))}: give each by its name.")
  return inputs[0]


def _with_bytes(value):
  """Returns a value with bytes instead of {"b64": ...}."""
  if isinstance(value, dict):
    encoded = value.get("b64")
    if set(value) != {"b64"} or not isinstance(encoded, str):
      raise errors.InputError('Expected numbers, texts, or bytes as {"b64": "..."}.')
    try:
      return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
      raise errors.InputError(f'"b64" is no base64: {error}.') from error
  if isinstance(value, list) and value and isinstance(value[0], dict):
    return [_with_bytes(item) for item in value]
  return value
