"""The Open Inference Protocol, version 2: reads its requests, and writes its answers.

    {"inputs": [{"name": "x", "shape": [2, 3], "datatype": "FP32", "data": [...]}]}
        → {"model_name": "digits", "model_version": "1732283000",
           "outputs": [{"name": "class", "shape": [2], "datatype": "INT64", "data": [3, 7]}]}

"parameters" of a request may have a "signature_name", as TensorFlow Serving's requests do.

In the protocol's binary extension, the bytes of tensors follow the JSON, in the JSON's order. Such
a tensor has "parameters": {"binary_data_size": N} instead of "data", and the header
Inference-Header-Content-Length tells where the JSON ends. An output is binary where the request has
"binary_data": true for it, or "binary_data_output": true for all.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
"""

import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import trainer
from trainer import errors
from trainer.io import json_form
from trainer.serving import calls
from trainer.serving import open_inference_tensors as tensors
from trainer.serving.loaded_model import DEFAULT, LoadedModel

JSON_SIZE = "Inference-Header-Content-Length"
BINARY = "binary_tensor_data"  # the name of the extension

_FORM = {"inputs": types.GenericAlias(list, (tensors.FORM,)), ...: object}


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
  parameters = tensors.parameters_of(message, "the request")
  signature = parameters.get("signature_name", DEFAULT)
  specs = calls.inputs_of(signature, loaded)
  columns = {}
  for tensor in message["inputs"]:
    if tensor["name"] in columns:
      raise errors.InputError(f'"inputs" has {tensor["name"]!r} twice.')
    columns[tensor["name"]], rest = tensors.read(tensor, rest, specs)
  if rest:
    raise errors.InputError(f"{len(rest)} bytes follow the last binary input.")
  outputs = loaded.description["signatures"][signature]["outputs"]
  wanted = _wanted(message, parameters, outputs)
  told = {"model_name": model, "model_version": loaded.version}
  if "id" in message:
    told["id"] = message["id"]
  return calls.prepare(signature, columns, loaded, functools.partial(_write, told, wanted))


def server_metadata() -> dict:
  """Returns the name, the version and the extensions of the server."""
  return {"name": "octet", "version": trainer.__version__, "extensions": [BINARY]}


def metadata(name: str, versions: Sequence[LoadedModel], loaded: LoadedModel) -> dict:
  """Returns the inputs and outputs of serving_default."""
  return {
    "name": name,
    "versions": [each.version for each in versions],
    "platform": "tensorflow_savedmodel",
    "inputs": tensors.describe(loaded.inputs),
    "outputs": tensors.describe(loaded.outputs),
  }


def _split(body, json_size):
  """Returns (the JSON, the bytes of tensors)."""
  if json_size is None:
    return body, memoryview(b"")
  # A longer number is larger than every body, and Python refuses to convert very long numbers.
  is_number = json_size.isascii() and json_size.isdigit() and len(json_size) < 20
  if not is_number or int(json_size) > len(body):
    raise errors.InputError(
      f"{JSON_SIZE} is {json_size[:50]!r}: expected the bytes of the JSON, at most the body's "
      f"{len(body)}."
    )
  return body[: int(json_size)], memoryview(body)[int(json_size) :]


def _wanted(message, parameters, outputs):
  """Returns name → whether the answer has it as bytes, of the outputs that the request asks for."""
  binary = bool(parameters.get("binary_data_output"))
  named = message.get("outputs") or [{"name": name} for name in outputs]
  wanted = {}
  for output in named if isinstance(named, list) else [named]:
    if not isinstance(output, dict) or not isinstance(output.get("name"), str):
      raise errors.InputError('Expected "outputs", a list of objects with a "name".')
    name = output["name"]
    if name not in outputs:
      raise errors.InputError(f"The model has no output {name!r}; it has {', '.join(outputs)}.")
    wanted[name] = bool(tensors.parameters_of(output, repr(name)).get("binary_data", binary))
  return wanted


def _write(
  told: Mapping[str, Any], wanted: Mapping[str, bool], outputs: Mapping[str, np.ndarray]
) -> calls.Answer:
  written = [tensors.write(name, outputs[name], binary) for name, binary in wanted.items()]
  head = calls.encode({**told, "outputs": [as_json for as_json, _ in written]})
  if not any(wanted.values()):
    return calls.Answer(head)
  content = b"".join([head, *(content for _, content in written)])
  return calls.Answer(content, "application/octet-stream", {JSON_SIZE: str(len(head))})
