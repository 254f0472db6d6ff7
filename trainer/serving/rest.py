"""TensorFlow Serving's REST shapes: what requests ask for, and how they are answered.

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
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer import errors
from trainer.io import json_form
from trainer.outputs import predictions, signatures
from trainer.outputs.preprocessing import FROM_BYTES, FROM_RAW
from trainer.serving import features
from trainer.serving.loaded_model import DEFAULT, LoadedModel


@dataclasses.dataclass(frozen=True)
class Request:
  """What a body asks for.

  Attributes:
    signature: which of the model's own is to be run.
    features: dict of feature → array, as it takes them.
    by_row: whether the answer has an entry for each example.
  """

  signature: str
  features: Mapping[str, np.ndarray]
  by_row: bool


def predict_request(body: bytes, loaded: LoadedModel) -> Request:
  """What a body of :predict asks for.

  Raises:
    InputError: it cannot be used; one sentence says why.
  """
  message = _message(body)
  signature = message.get("signature_name", DEFAULT)
  known = _signatures(loaded)
  if not isinstance(signature, str) or signature not in known:
    raise errors.InputError(
      f'"signature_name" is {signature!r}: expected one of {", ".join(known)}.'
    )
  if ("instances" in message) == ("inputs" in message):
    raise errors.InputError('Expected one of "instances" and "inputs".')
  by_row = "instances" in message
  inputs = list(loaded.description["signatures"][signature]["inputs"])
  if by_row:
    columns = _columns_of_rows(message["instances"], inputs)
  else:
    columns = message["inputs"]
    if not isinstance(columns, dict) or "b64" in columns:
      columns = {_only(inputs): columns}
  columns = {name: _with_bytes(value) for name, value in columns.items()}
  if signature == signatures.FROM_EXAMPLES and signature not in loaded.engines:
    signature, columns = _of_examples(columns.get(signatures.EXAMPLES), loaded)
  return Request(signature, _checked(columns, signature, loaded), by_row)


def _signatures(loaded):
  """Those of :predict: the model's own, and those that take files and Examples."""
  known = {*loaded.engines, signatures.FROM_EXAMPLES}
  return [name for name in loaded.description["signatures"] if name in known]


def classify_request(body: bytes, loaded: LoadedModel) -> Request:
  """What a body of :classify asks for; InputError if it cannot be used."""
  described = loaded.description["signatures"]
  if signatures.CLASSIFY not in described or signatures.CLASSIFY in loaded.engines:
    raise errors.InputError("The model has no signature 'classify': its classes have no names.")
  signature = loaded.for_users
  inputs = list(described[signature]["inputs"])
  columns = _columns_of_rows(_message(body).get("examples"), inputs, "examples")
  columns = {name: _with_bytes(value) for name, value in columns.items()}
  return Request(signature, _checked(columns, signature, loaded), True)


def predict_answer(request: Request, outputs: Mapping[str, np.ndarray]) -> bytes:
  """The body of the answer to :predict."""
  columns = {name: predictions.to_json(array) for name, array in outputs.items()}
  single = len(columns) == 1
  if not request.by_row:
    return _encoded({"outputs": next(iter(columns.values())) if single else columns})
  if single:
    return _encoded({"predictions": next(iter(columns.values()))})
  rows = zip(*columns.values(), strict=True)
  return _encoded({"predictions": [dict(zip(columns, row, strict=True)) for row in rows]})


def classify_answer(outputs: Mapping[str, np.ndarray], class_names: Sequence[str]) -> bytes:
  """The body of the answer to :classify."""
  scores = predictions.to_json(outputs["probabilities"])
  return _encoded(
    {"result": [[list(pair) for pair in zip(class_names, row, strict=True)] for row in scores]}
  )


def metadata(name: str, loaded: LoadedModel) -> dict:
  """What /metadata answers."""
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


def _encoded(value: Any) -> bytes:
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
  """A value with bytes in the place of {"b64": ...}."""
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


def _checked(columns, signature, loaded):
  """Features as the signature takes them."""
  for name in loaded.decoders if signature == FROM_BYTES else ():
    value = columns.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, bytes) for item in value):
      raise errors.InputError(f'{name!r} must be files, as {{"b64": "..."}} each.')
  checked = loaded.check(columns, signature)
  optional = {each["input"] for each in loaded.raw.values() if each["optional"]}
  for name, array in checked.items():
    if signature == FROM_RAW and name in optional and array.dtype != object:
      array = array[~np.isnan(array)]  # which are missing
    _require_finite(name, array)
  return checked


def _require_finite(name, array):
  """Refuses NaN and infinity, which are no JSON although Python's parser takes them."""
  # Numbers such as 1e999 are JSON. They become infinite when they are parsed or converted.
  if array.dtype == object or np.issubdtype(array.dtype, np.integer):
    return
  finite = np.isfinite(array)
  if not finite.all():
    place = [int(index) for index in np.argwhere(~finite)[0]]
    raise errors.InputError(
      f"The feature {name!r} is {float(array[tuple(place)])} at {place}: expected finite numbers."
    )


def _of_examples(serialised, loaded):
  """(the signature for them, columns) of serialised Examples."""
  if not isinstance(serialised, list) or not all(isinstance(item, bytes) for item in serialised):
    raise errors.InputError('Expected serialised tf.train.Examples, as {"b64": "..."} each.')
  rows = [features.parse_example(item, loaded) for item in serialised]
  return loaded.for_users, {name: [row[name] for row in rows] for name in rows[0]}
