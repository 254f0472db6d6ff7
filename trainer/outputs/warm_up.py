"""Requests that TensorFlow Serving runs when it loads a SavedModel, so that the first user waits no
longer than the second.

    <SavedModel>/assets.extra/tf_serving_warmup_requests     TFRecords of PredictionLog messages

The package tensorflow-serving-api has these messages and would bring another TensorFlow along.
Three of them are written here by hand, field by field, in the wire format of Protocol Buffers.
Their
definitions: tensorflow_serving/apis/{prediction_log,predict,model}.proto.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

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
