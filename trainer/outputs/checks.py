"""Builds the checks of an export: calls of its signatures, with the outputs that the model gives.

The module computes the expected outputs without the signatures. For example, an encoded image
passes through the input pipeline's own decoder and then through the model.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.outputs import preprocessing as preprocessing_lib
from trainer.outputs import random_inputs, served_inputs, signatures, verification

ROWS = 16  # Most examples in a call.
_IMAGES = 3  # Most examples in a call with encoded images.


def build(
  call: Callable[[Mapping[str, np.ndarray]], Mapping[str, Any]],
  own: Sequence[str],
  beside: Collection[str],
  inputs: served_inputs.ServedInputs,
  preprocessing: preprocessing_lib.Preprocessing | None,
  class_names: Sequence[str] | None,
) -> list[verification.Check]:
  """Builds a check for each signature with known inputs.

  Args:
    call: the model: function of a dict of name → array that returns {signature: outputs}, where
      outputs are a dict of tensors or one tensor.
    own: the names of the model's own signatures.
    beside: the names of the other signatures.
    inputs: the model's inputs.
    preprocessing: makes features from the user's data; None for a receiver function.
    class_names: the names of the classes, or None.
  """
  arrays = inputs.sample(ROWS)[0] if inputs.sample else random_inputs.make(inputs.by_name)
  if arrays is None:
    return []
  # The other process makes a first call, this one uses its second: if a model draws random numbers,
  # they differ, and the check finds it.
  call(arrays)
  outputs = call(arrays)
  checks = [verification.Check(name, _served(arrays), _arrays(outputs[name])) for name in own]
  if not beside or preprocessing is None:
    return checks
  return checks + _of_users_values(call, own, beside, arrays, preprocessing, class_names)


def _of_users_values(call, own, beside, arrays, preprocessing, class_names):
  """Builds the checks of the signatures beside the model's own.

  There are none if a decoder makes something other than an image, since there are no bytes to try
  it with.
  """
  received = _columns(preprocessing.raw) if preprocessing.raw else _files(arrays, preprocessing)
  if received is None:
    return []
  tensors = {
    name: tf.constant(received[name], spec.dtype) for name, spec in preprocessing.spec.items()
  }
  features = {name: each.numpy() for name, each in preprocessing.to_features(tensors).items()}
  outputs = _arrays(call(features)[signatures.main_output(own)])
  rows = len(next(iter(received.values())))
  examples = _objects(
    [serialise({name: array[row] for name, array in received.items()}) for row in range(rows)]
  )
  calls = {
    signatures.FROM_EXAMPLES: {signatures.EXAMPLES: examples},
    signatures.CLASSIFY: {signatures.CLASSIFY_INPUTS: examples},
  }
  if preprocessing.signature:
    names = {name: spec.name for name, spec in preprocessing.spec.items()}
    calls[preprocessing.signature] = _served(
      {names[name]: array for name, array in received.items()}
    )
  expected = dict.fromkeys(calls, outputs)
  if signatures.CLASSIFY in beside:
    names = _objects([name.encode() for name in class_names] * rows).reshape(rows, -1)
    expected[signatures.CLASSIFY] = {"classes": names, "scores": outputs["probabilities"]}
  return [
    verification.Check(name, given, expected[name])
    for name, given in calls.items()
    if name in beside
  ]


def _columns(raw):
  """Returns the examples of the input_fn, as exact as a tf.train.Example can hold them."""
  return {
    name: array.astype(np.float32).astype(np.float64) if array.dtype.kind == "f" else array
    for name, array in raw.examples.items()
  }


def _files(arrays, preprocessing):
  """Returns features, with files for decoders; None if these are no images."""
  rows = min(_IMAGES, *(len(array) for array in arrays.values())) if arrays else _IMAGES
  encoded = {name: _images(arrays[name].shape[1:], rows) for name in preprocessing.decoders}
  if any(files is None for files in encoded.values()):
    return None
  features = {name: array[:rows] for name, array in arrays.items()}
  return features | {name: _objects(files) for name, files in encoded.items()}


def _served(arrays):
  return {served_inputs.input_name(name): array for name, array in arrays.items()}


def serialise(example: Mapping[str, np.ndarray]) -> bytes:
  """Returns the features of one example as a serialised tf.train.Example.

  Args:
    example: feature → array, or bytes.
  """
  features = {}
  for name, value in example.items():
    if isinstance(value, bytes):
      features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
      continue
    array = np.asarray(value)
    values = array.ravel().tolist()
    if array.dtype == object:
      features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    elif array.dtype.kind in "fV":
      features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
    else:
      features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=map(int, values)))
  made = tf.train.Example(features=tf.train.Features(feature=features))
  return made.SerializeToString(deterministic=True)


def _images(shape, count):
  """Encodes different random images: a PNG of this shape, a larger JPEG, and a higher PNG.

  None if the shape is not an image's.
  """
  if len(shape) != 3 or shape[-1] not in (1, 3):
    return None
  random = np.random.RandomState(2)
  height, width, channels = shape
  files = []
  for number in range(count):
    size = (
      (height, width)
      if number == 0
      else (height + 9, width + 14)
      if number == 1
      else (2 * height + 1, width)
    )
    coarse = random.randint(0, 256, (5, 5, channels)).astype(np.float32)
    pixels = tf.cast(tf.image.resize(coarse, size), tf.uint8)
    encode = tf.io.encode_jpeg if number == 1 else tf.io.encode_png
    files.append(encode(pixels).numpy())
  return files


def _objects(items):
  array = np.empty(len(items), object)
  array[:] = items
  return array


def _arrays(output):
  output = output if isinstance(output, dict) else {"output": output}
  return {name: np.asarray(tensor) for name, tensor in output.items()}
