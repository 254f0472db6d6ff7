"""The Open Inference Protocol, version 2: reads its requests, and writes its answers.

    {"inputs": [{"name": "x", "shape": [2, 3], "datatype": "FP32", "data": [...]}]}
        → {"model_name": "digits", "model_version": "1732283000",
           "outputs": [{"name": "class", "shape": [2], "datatype": "INT64", "data": [3, 7]}]}

"parameters" of a request may have a "signature_name", as TensorFlow Serving's requests do.

In the protocol's binary extension, the bytes of tensors follow the JSON, in the order in which it
names them. Such a tensor has "parameters": {"binary_data_size": N} in place of "data", and the
header Inference-Header-Content-Length tells where the JSON ends. An output is binary where the
request has "binary_data": true for it, or "binary_data_output": true for all.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
"""

import functools
import math
import types
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import trainer
from trainer import errors
from trainer.io import json_form
from trainer.outputs import predictions
from trainer.serving import calls
from trainer.serving.loaded_model import DEFAULT, LoadedModel

JSON_SIZE = "Inference-Header-Content-Length"
BINARY = "binary_tensor_data"  # the name of the extension

_NUMBERS = {
  "BOOL": np.bool_,
  **{f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
  **{f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
  **{f"FP{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
  "BF16": ml_dtypes.bfloat16,
}
# Names of TensorFlow's types → datatypes.
_DATATYPES = {np.dtype(kind).name: name for name, kind in _NUMBERS.items()} | {"string": "BYTES"}
_TENSOR = {"name": str, "shape": list[int], "datatype": str, ...: object}
_FORM = {"inputs": types.GenericAlias(list, (_TENSOR,)), ...: object}
# Parameters of extensions that this server does not have and that change what is computed.
_REFUSED = ("classification", "sequence_id", "shared_memory_region")


def read_infer(
  body: bytes, loaded: LoadedModel, model: str, json_size: str | None = None
) -> calls.Call:
  """Reads the body of an inference request.

  Args:
    body: of the request.
    loaded: the model.
    model: its name.
    json_size: the header JSON_SIZE; None if the request has none.

  Raises:
    InputError: the model cannot use the request; one sentence says why.
  """
  head, rest = _split(body, json_size)
  message = json_form.parse(head, _FORM, "The JSON of the body", "send an inference request")
  parameters = _parameters(message, "the request")
  signature = parameters.get("signature_name", DEFAULT)
  specs = calls.inputs_of(signature, loaded)
  columns = {}
  for tensor in message["inputs"]:
    if tensor["name"] in columns:
      raise errors.InputError(f'"inputs" has {tensor["name"]!r} twice.')
    columns[tensor["name"]], rest = _read_tensor(tensor, rest, specs)
  if rest:
    raise errors.InputError(f"{len(rest)} bytes follow the last binary input.")
  wanted = _wanted(message, bool(parameters.get("binary_data_output")))
  _require_outputs(wanted or {}, loaded.description["signatures"][signature]["outputs"])
  told = {"model_name": model, "model_version": loaded.version}
  if "id" in message:
    told["id"] = message["id"]
  write = functools.partial(_write, told, wanted, bool(parameters.get("binary_data_output")))
  return calls.prepare(signature, columns, loaded, write)


def server_metadata() -> dict:
  """Returns the name, the version and the extensions of the server."""
  return {"name": "octet", "version": trainer.__version__, "extensions": [BINARY]}


def metadata(name: str, versions: Sequence[LoadedModel], loaded: LoadedModel) -> dict:
  """Returns the inputs and outputs of serving_default.

  Args:
    name: of the model.
    versions: that are loaded.
    loaded: the version that is described.
  """

  def tensors(specs):
    return [
      {
        "name": key,
        "datatype": _DATATYPES.get(spec["dtype"], spec["dtype"].upper()),
        "shape": [-1 if size is None else size for size in spec["shape"] or [None]],
      }
      for key, spec in specs.items()
    ]

  return {
    "name": name,
    "versions": [each.version for each in versions],
    "platform": "tensorflow_savedmodel",
    "inputs": tensors(loaded.inputs),
    "outputs": tensors(loaded.outputs),
  }


def _split(body, json_size):
  """Returns (the JSON, the bytes of tensors)."""
  if json_size is None:
    return body, memoryview(b"")
  if not (json_size.isascii() and json_size.isdigit() and int(json_size) <= len(body)):
    raise errors.InputError(
      f"{JSON_SIZE} is {json_size[:50]!r}: expected the bytes of the JSON, at most those of the "
      f"body, {len(body)}."
    )
  return body[: int(json_size)], memoryview(body)[int(json_size) :]


def _parameters(owner, name):
  parameters = owner.get("parameters", {})
  if not isinstance(parameters, dict):
    raise errors.InputError(f'"parameters" of {name} is {parameters!r}: expected an object.')
  for refused in _REFUSED:
    if parameters.get(refused):
      raise errors.InputError(
        f"{name} has the parameter {refused!r}: the server has no such extension; it has {BINARY}."
      )
  return parameters


def _read_tensor(tensor, rest, specs):
  """Returns (values, the bytes of later tensors)."""
  name, shape, datatype = tensor["name"], tensor["shape"], tensor["datatype"]
  if datatype != "BYTES" and datatype not in _NUMBERS:
    known = ", ".join([*_NUMBERS, "BYTES"])
    raise errors.InputError(f"The datatype of {name!r} is {datatype!r}: expected one of {known}.")
  taken = _DATATYPES.get(specs[name]["dtype"]) if name in specs else datatype
  if datatype != taken:
    raise errors.InputError(f"The datatype of {name!r} is {datatype}: the model takes {taken}.")
  if any(size < 0 for size in shape):
    raise errors.InputError(f"The shape of {name!r} is {shape}: expected sizes of 0 or more.")
  size = _parameters(tensor, repr(name)).get("binary_data_size")
  if (size is None) == ("data" not in tensor):
    raise errors.InputError(f'Expected one of "data" and "binary_data_size" for {name!r}.')
  if size is None:
    return _from_json(name, shape, datatype, tensor["data"]), rest
  if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(rest):
    raise errors.InputError(
      f"binary_data_size of {name!r} is {size!r}: expected at most the {len(rest)} bytes that "
      "follow the JSON and the inputs before it."
    )
  return _from_bytes(name, shape, datatype, rest[:size]), rest[size:]


def _from_json(name, shape, datatype, data):
  """Returns an array; for texts, and numbers of which some are null, nested lists."""
  try:
    # Only with the type `object` numpy keeps zeros at the end of a text.
    array = np.asarray(data, object if datatype == "BYTES" else None)
  except (ValueError, OverflowError) as error:
    raise errors.InputError(f'"data" of {name!r} is no tensor: {error}.') from error
  array = _shaped(name, shape, array)
  return array.tolist() if array.dtype == object else array


def _from_bytes(name, shape, datatype, content):
  if datatype == "BYTES":
    return _shaped(name, shape, _elements(name, content)).tolist()
  kind = np.dtype(_NUMBERS[datatype])
  if len(content) != math.prod(shape) * kind.itemsize:
    raise errors.InputError(
      f"binary_data_size of {name!r} is {len(content)}: its shape {shape} of {datatype} has "
      f"{math.prod(shape) * kind.itemsize} bytes."
    )
  array = np.frombuffer(content, np.uint8 if datatype == "BOOL" else kind).reshape(shape)
  return array != 0 if datatype == "BOOL" else array


def _elements(name, content):
  """Returns bytes [n], of which each comes after its length in 4 bytes."""
  found, place = [], 0
  while place < len(content):
    end = place + 4 + int.from_bytes(content[place : place + 4], "little")
    if end > len(content):
      raise errors.InputError(f"The binary data of {name!r} end within an element.")
    found.append(bytes(content[place + 4 : end]))
    place = end
  array = np.empty(len(found), object)
  array[:] = found
  return array


def _shaped(name, shape, array):
  if array.size != math.prod(shape):
    raise errors.InputError(
      f"{name!r} has {array.size} values: its shape {shape} has {math.prod(shape)}."
    )
  return array.reshape(shape)


def _wanted(message, binary):
  """Returns name → whether it is binary, of the outputs that a request names; None for all."""
  named = message.get("outputs")
  if named is None:
    return None
  wanted = {}
  for output in named if isinstance(named, list) else [named]:
    if not isinstance(output, dict) or not isinstance(output.get("name"), str):
      raise errors.InputError('Expected "outputs", a list of objects with a "name".')
    asked = _parameters(output, repr(output["name"])).get("binary_data", binary)
    wanted[output["name"]] = bool(asked)
  return wanted


def _require_outputs(wanted, described):
  for name in wanted:
    if name not in described:
      raise errors.InputError(f"The model has no output {name!r}; it has {', '.join(described)}.")


def _write(
  told: Mapping[str, Any],
  wanted: Mapping[str, bool] | None,
  binary: bool,
  outputs: Mapping[str, np.ndarray],
) -> calls.Answer:
  tensors, contents = [], []
  for name, is_binary in (wanted or dict.fromkeys(outputs, binary)).items():
    tensor, content = _write_tensor(name, np.asarray(outputs[name]), is_binary)
    tensors.append(tensor)
    contents.append(content)
  head = calls.encode({**told, "outputs": tensors})
  if not any("parameters" in tensor for tensor in tensors):
    return calls.Answer(head)
  headers = {JSON_SIZE: str(len(head))}
  return calls.Answer(b"".join([head, *contents]), "application/octet-stream", headers)


def _write_tensor(name, array, is_binary):
  """Returns (JSON of a tensor, its bytes); no bytes if the JSON has the data."""
  is_bytes = array.dtype.kind in "OS"
  datatype = "BYTES" if is_bytes else _DATATYPES.get(array.dtype.name)
  if datatype is None:
    raise errors.InputError(
      f"The output {name!r} is {array.dtype.name}, for which the protocol has no datatype. "
      'Name the other outputs in "outputs".'
    )
  tensor: dict[str, Any] = {"name": name, "shape": list(array.shape), "datatype": datatype}
  if not is_binary:
    return {**tensor, "data": predictions.to_json(array.ravel())}, b""
  if is_bytes:
    elements = [each if isinstance(each, bytes) else each.encode() for each in array.ravel()]
    content = b"".join(len(each).to_bytes(4, "little") + each for each in elements)
  else:
    content = np.ascontiguousarray(array, _NUMBERS[datatype]).tobytes()
  return {**tensor, "parameters": {"binary_data_size": len(content)}}, content
