"""Tensors of the Open Inference Protocol: as JSON values, or as bytes behind the JSON.

array, rest = read({"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}, rest, specs)
as_json, content = write("x", array, is_binary=True)
# {"name": "x", "shape": [2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}
"""

import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from trainer import errors
from trainer.outputs import predictions

_NUMBERS = {
  "BOOL": np.bool_,
  **{f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
  **{f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
  **{f"FP{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
  "BF16": ml_dtypes.bfloat16,
}
# Names of TensorFlow's types → datatypes.
_DATATYPES = {np.dtype(kind).name: name for name, kind in _NUMBERS.items()} | {"string": "BYTES"}
# What a tensor of a request must have, see `json_form`.
FORM = {"name": str, "shape": list[int], "datatype": str, ...: object}
# Parameters of missing extensions that would change the server's results.
_REFUSED = ("classification", "sequence_id", "shared_memory_region")


def describe(specs: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
  """Describes the inputs or outputs of a signature.

  Args:
    specs: name → {"dtype", "shape"}.

  Returns:
    A dict of name, datatype and shape for each.
  """
  return [
    {
      "name": name,
      "datatype": _DATATYPES.get(spec["dtype"], spec["dtype"].upper()),
      "shape": [-1 if size is None else size for size in spec["shape"] or [None]],
    }
    for name, spec in specs.items()
  ]


def parameters_of(owner: Mapping[str, Any], name: str) -> Mapping[str, Any]:
  """Returns the parameters of a request or of a tensor; its name is for messages.

  Raises:
    InputError: the parameters are no object, or ask for an extension that the server does not have.
  """
  parameters = owner.get("parameters", {})
  if not isinstance(parameters, dict):
    raise errors.InputError(f'"parameters" of {name} is {parameters!r}: expected an object.')
  for refused in _REFUSED:
    if parameters.get(refused):
      raise errors.InputError(
        f"{name} has the parameter {refused!r}, of an extension that the server does not have."
      )
  return parameters


def read(
  tensor: Mapping[str, Any], rest: memoryview, specs: Mapping[str, Mapping[str, Any]]
) -> tuple[Any, memoryview]:
  """Reads a tensor of a request.

  Args:
    tensor: of the form FORM.
    rest: the bytes of this tensor, if it is binary, and of later ones.
    specs: name → {"dtype", "shape"} of the signature's inputs.

  Returns:
    (values, the bytes of later tensors). Values are an array; or nested lists of texts and bytes,
    or of numbers and nulls.

  Raises:
    InputError: the tensor has another datatype or size.
  """
  name, shape, datatype = tensor["name"], tensor["shape"], tensor["datatype"]
  if datatype != "BYTES" and datatype not in _NUMBERS:
    known = ", ".join([*_NUMBERS, "BYTES"])
    raise errors.InputError(f"The datatype of {name!r} is {datatype!r}: expected one of {known}.")
  taken = _DATATYPES.get(specs[name]["dtype"]) if name in specs else datatype
  if datatype != taken:
    raise errors.InputError(f"The datatype of {name!r} is {datatype}: the model takes {taken}.")
  if any(size < 0 for size in shape):
    raise errors.InputError(f"The shape of {name!r} is {shape}: expected sizes of 0 or more.")
  size = parameters_of(tensor, repr(name)).get("binary_data_size")
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
  # A byte of a BOOL may be any number; numpy's bools hold 0 and 1 alone.
  array = np.frombuffer(content, np.uint8 if datatype == "BOOL" else kind).reshape(shape)
  return array != 0 if datatype == "BOOL" else array


def _elements(name, content):
  """Returns an array of the elements; each follows its length in 4 bytes."""
  found, place = [], 0
  while place < len(content):
    end = place + 4 + int.from_bytes(content[place : place + 4], "little")
    if end > len(content):
      raise errors.InputError(f"The binary data of {name!r} end within an element.")
    found.append(bytes(content[place + 4 : end]))
    place = end
  return np.array(found, object)  # numpy's own type of bytes drops zeros at the end.


def _shaped(name, shape, array):
  if array.size != math.prod(shape):
    raise errors.InputError(
      f"{name!r} has {array.size} values: its shape {shape} has {math.prod(shape)}."
    )
  try:
    return array.reshape(shape)
  except ValueError as error:  # more dimensions, or larger ones, than numpy has
    raise errors.InputError(f"The shape of {name!r} is {shape}: {error}.") from error


def write(name: str, array: np.ndarray, is_binary: bool) -> tuple[dict[str, Any], bytes]:
  """Returns (JSON of a tensor, its bytes); there are no bytes if the JSON has the data.

  Raises:
    InputError: the protocol has no datatype for the array.
  """
  is_bytes = array.dtype.kind in "OS"
  datatype = "BYTES" if is_bytes else _DATATYPES.get(array.dtype.name)
  if datatype is None:
    raise errors.InputError(
      f"The output {name!r} is {array.dtype.name}; the protocol has no datatype for it. Name the "
      'other outputs in "outputs".'
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
