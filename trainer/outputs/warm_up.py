"""Writes and reads the requests that TensorFlow Serving runs when it loads a SavedModel.

With them the first user waits no longer than the second.

    <SavedModel>/assets.extra/tf_serving_warmup_requests     TFRecords of PredictionLog messages

The package tensorflow-serving-api defines these messages, but it would install another TensorFlow.
So this module writes and reads three of its messages itself, field by field, in the wire format of
Protocol Buffers. Source: tensorflow_serving/apis/{prediction_log,predict,model}.proto.
"""

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from trainer import errors
from trainer.io import storage
from trainer.outputs import verification

NAME = "tf_serving_warmup_requests"
MOST = 1000  # Most requests that TensorFlow Serving accepts.

# Field numbers.
_LOG_PREDICT = 6  # PredictionLog.predict_log
_PREDICT_REQUEST = 1  # PredictLog.request
_REQUEST_MODEL = 1  # PredictRequest.model_spec
_REQUEST_INPUTS = 2  # PredictRequest.inputs, a map: messages of a key and a value
_MAP_KEY, _MAP_VALUE = 1, 2
_MODEL_NAME, _MODEL_SIGNATURE = 1, 3  # ModelSpec.name and signature_name

_BYTES = 2  # The wire type of strings, bytes and messages.


def prediction_log(signature: str, inputs: Mapping[str, np.ndarray]) -> bytes:
  """Returns a predict request as a serialised PredictionLog.

  Args:
    signature: the signature's name.
    inputs: name of an input → array.
  """
  # The server ignores the model's name in a warm-up.
  spec = _field(_MODEL_NAME, b"model") + _field(_MODEL_SIGNATURE, signature.encode())
  request = _field(_REQUEST_MODEL, spec)
  for name, array in inputs.items():
    tensor = tf.make_tensor_proto(array).SerializeToString()
    entry = _field(_MAP_KEY, name.encode()) + _field(_MAP_VALUE, tensor)
    request += _field(_REQUEST_INPUTS, entry)
  return _field(_LOG_PREDICT, _field(_PREDICT_REQUEST, request))


def write(
  saved_model: str, checks: Iterable[verification.Check], batch_sizes: Sequence[int]
) -> None:
  """Writes requests into a SavedModel: the calls of checks, for each batch size.

  Args:
    saved_model: its folder.
    checks: the calls; the function repeats or cuts their examples to a batch size.
    batch_sizes: the sizes; at most `MOST` requests.
  """
  logs = [
    prediction_log(
      check.signature, {name: _resized(array, size) for name, array in check.inputs.items()}
    )
    for size in batch_sizes
    for check in checks
  ]
  if logs:
    path = path_of(saved_model)
    storage.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
      for log in logs[:MOST]:
        writer.write(log)


def _resized(array, size):
  """Repeats or cuts the rows of an array to the given number. A scalar input has no rows."""
  return array if np.ndim(array) == 0 else np.take(array, np.arange(size), axis=0, mode="wrap")


def path_of(saved_model: str) -> str:
  """Returns the path of the requests of a SavedModel."""
  return os.path.join(saved_model, "assets.extra", NAME)


def read(saved_model: str) -> list[tuple[str, dict[str, np.ndarray]]]:
  """Reads the warm-up requests of an export.

  Returns:
    (signature, inputs by name) for each request; [] if the export has none.

  Raises:
    InputError: the file is damaged.
  """
  path = path_of(saved_model)
  if not storage.exists(path):
    return []
  try:
    return [_parsed(log) for log in tf.data.TFRecordDataset(path).as_numpy_iterator()]
  except Exception as error:  # Parsers raise errors of many kinds.
    raise errors.InputError(f"{path} is damaged ({error}): export again.") from error


def _parsed(log):
  (request,) = _contents(_contents(log)[_LOG_PREDICT][0])[_PREDICT_REQUEST]
  fields = _contents(request)
  (signature,) = _contents(fields[_REQUEST_MODEL][0])[_MODEL_SIGNATURE]
  inputs = {}
  for entry in map(_contents, fields[_REQUEST_INPUTS]):
    tensor = tensor_pb2.TensorProto.FromString(entry[_MAP_VALUE][0])
    inputs[entry[_MAP_KEY][0].decode()] = tf.make_ndarray(tensor)
  return signature.decode(), inputs


def _contents(serialised: bytes) -> dict[int, list[bytes]]:
  """Splits a message of strings, bytes and messages into its fields, by field number."""
  fields: dict[int, list[bytes]] = {}
  place = 0
  while place < len(serialised):
    tag, place = _read_varint(serialised, place)
    if tag & 7 != _BYTES:
      raise ValueError(f"a field of wire type {tag & 7} is no request's")
    length, place = _read_varint(serialised, place)
    if place + length > len(serialised):
      raise ValueError("a message ends too early")
    fields.setdefault(tag >> 3, []).append(serialised[place : place + length])
    place += length
  return fields


def _read_varint(serialised: bytes, place: int) -> tuple[int, int]:
  """Reads a number at a place; returns (number, place after it)."""
  value = shift = 0
  while True:
    byte = serialised[place]
    value |= (byte & 0x7F) << shift
    place, shift = place + 1, shift + 7
    if not byte & 0x80:
      return value, place


def _field(number: int, content: bytes) -> bytes:
  return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
  """Encodes seven bits per byte, the lowest first. The highest bit says that more bytes follow."""
  encoded = bytearray()
  while value > 0x7F:
    encoded.append(value & 0x7F | 0x80)
    value >>= 7
  encoded.append(value)
  return bytes(encoded)
