"""Requests that TensorFlow Serving runs when it loads a SavedModel, so that the first user waits no
longer than the second.

    <SavedModel>/assets.extra/tf_serving_warmup_requests     TFRecords of PredictionLog messages

The package tensorflow-serving-api has these messages and would bring another TensorFlow along.
Three of them are written and read here by hand, field by field, in the wire format of Protocol
Buffers. Their definitions: tensorflow_serving/apis/{prediction_log,predict,model}.proto.
"""

import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from trainer import errors

NAME = "tf_serving_warmup_requests"
MOST = 1000  # requests that TensorFlow Serving takes

# Numbers of the fields.
_LOG_PREDICT = 6  # PredictionLog.predict_log
_PREDICT_REQUEST = 1  # PredictLog.request
_REQUEST_MODEL = 1  # PredictRequest.model_spec
_REQUEST_INPUTS = 2  # PredictRequest.inputs, a map: messages of a key and a value
_MAP_KEY, _MAP_VALUE = 1, 2
_MODEL_NAME, _MODEL_SIGNATURE = 1, 3  # ModelSpec.name and signature_name

_BYTES = 2  # the wire type of texts, bytes and messages


def prediction_log(signature: str, inputs: Mapping[str, np.ndarray], model: str = "model") -> bytes:
  """A serialised PredictionLog of a predict request.

  Args:
    signature: name of the signature.
    inputs: dict of its inputs' names → arrays.
    model: a name, which the server does not look at while it warms up.
  """
  spec = _field(_MODEL_NAME, model.encode()) + _field(_MODEL_SIGNATURE, signature.encode())
  request = _field(_REQUEST_MODEL, spec)
  for name, array in inputs.items():
    tensor = tf.make_tensor_proto(array).SerializeToString()
    entry = _field(_MAP_KEY, name.encode()) + _field(_MAP_VALUE, tensor)
    request += _field(_REQUEST_INPUTS, entry)
  return _field(_LOG_PREDICT, _field(_PREDICT_REQUEST, request))


def write(path: str, logs: list[bytes]) -> None:
  """Writes serialised PredictionLogs, at most `MOST`."""
  with tf.io.TFRecordWriter(path) as writer:
    for log in logs[:MOST]:
      writer.write(log)


def read(saved_model: str) -> list[tuple[str, dict[str, np.ndarray]]]:
  """The requests that an export has to warm up with: pairs of a signature and its inputs by name.

  Raises:
    InputError: the file is damaged.
  """
  path = os.path.join(saved_model, "assets.extra", NAME)
  if not tf.io.gfile.exists(path):
    return []
  try:
    return [_parsed(log) for log in tf.data.TFRecordDataset(path).as_numpy_iterator()]
  except Exception as error:  # of whatever kind the parsers raise
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
  """The fields of a message of which all are texts, bytes or messages, by their numbers."""
  fields, place = {}, 0
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
  """(the number that begins at a place, the place behind it)."""
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
  """Seven bits a byte, the lowest first; the highest bit says that more follow."""
  encoded = bytearray()
  while value > 0x7F:
    encoded.append(value & 0x7F | 0x80)
    value >>= 7
  encoded.append(value)
  return bytes(encoded)
