"""Writes and reads the requests that TensorFlow Serving runs when it loads a SavedModel.

With them the first user waits no longer than the second.

    <SavedModel>/assets.extra/tf_serving_warmup_requests     TFRecords of PredictionLog messages

The package tensorflow-serving-api defines these messages, but it would install another TensorFlow.
So this module defines the fields that it needs. Source:
tensorflow_serving/apis/{prediction_log,predict,model}.proto.
"""

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2

from trainer import errors
from trainer.io import storage
from trainer.outputs import verification

NAME = "tf_serving_warmup_requests"
MOST = 1000  # Most requests that TensorFlow Serving accepts.

# Message → {number: (name of the field, type)}. A map is a list of messages of a key and a value.
_MESSAGES = {
  "ModelSpec": {1: ("name", "string"), 3: ("signature_name", "string")},
  "Input": {1: ("key", "string"), 2: ("value", tensor_pb2.TensorProto.DESCRIPTOR.full_name)},
  "PredictRequest": {1: ("model_spec", "octet.ModelSpec"), 2: ("inputs", "octet.Input")},
  "PredictLog": {1: ("request", "octet.PredictRequest")},
  "PredictionLog": {6: ("predict_log", "octet.PredictLog")},
}


@functools.cache
def _prediction_log() -> Any:
  """Returns the class PredictionLog."""
  of_tensors = tensor_pb2.TensorProto.DESCRIPTOR.file.name
  file = descriptor_pb2.FileDescriptorProto(
    name="octet/warm_up.proto", package="octet", syntax="proto3", dependency=[of_tensors]
  )
  kinds = descriptor_pb2.FieldDescriptorProto
  for message, fields in _MESSAGES.items():
    added = file.message_type.add(name=message)
    for number, (name, kind) in fields.items():
      field = added.field.add(name=name, number=number, label=kinds.LABEL_OPTIONAL)
      field.type = kinds.TYPE_STRING if kind == "string" else kinds.TYPE_MESSAGE
      if kind != "string":
        field.type_name = f".{kind}"
      if name == "inputs":
        field.label = kinds.LABEL_REPEATED
  pool = descriptor_pool.Default()
  pool.AddSerializedFile(file.SerializeToString())
  return message_factory.GetMessageClass(pool.FindMessageTypeByName("octet.PredictionLog"))


def prediction_log(signature: str, inputs: Mapping[str, np.ndarray]) -> bytes:
  """Returns a predict request as a serialised PredictionLog.

  Args:
    signature: the signature's name.
    inputs: name of an input → array.
  """
  log = _prediction_log()()
  request = log.predict_log.request
  # The server ignores the model's name in a warm-up.
  request.model_spec.name, request.model_spec.signature_name = "model", signature
  for name, array in inputs.items():
    request.inputs.add(key=name, value=tf.make_tensor_proto(array))
  return log.SerializeToString()


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


def _parsed(serialised):
  request = _prediction_log().FromString(serialised).predict_log.request
  if not request.model_spec.signature_name:
    raise ValueError("a request names no signature")
  inputs = {each.key: tf.make_ndarray(each.value) for each in request.inputs}
  return request.model_spec.signature_name, inputs
