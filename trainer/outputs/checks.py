"""Builds the checks of an export: calls of its signatures, with the outputs that the model gives.

The expected outputs are computed without the signatures. For example, an encoded image passes
through the input pipeline's own decoder and then through the model.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from trainer.outputs import signatures, verification

ROWS = 16  # most examples in a call
_IMAGES = 3  # most examples in a call with encoded images


def input_name(name: str) -> str:
  """Returns the name of a feature in a signature: only letters, digits and underscores."""
  return re.sub(r"\W", "_", name)


def of_model(
  call: Callable, names: list[str], arrays: Mapping[str, np.ndarray]
) -> list[verification.Check]:
  """Builds a check for each of the model's own signatures.

  Args:
    call: the model: function of a dict of name → array that returns {signature: outputs}, where
      outputs are a dict of tensors or one tensor.
    names: the names of the signatures.
    arrays: the inputs, name → array.

  Returns:
    The checks.
  """
  # The other process makes a first call, this one uses its second: if a model draws random numbers,
  # they differ, and the check finds it.
  call(arrays)
  outputs = call(arrays)
  inputs = {input_name(name): array for name, array in arrays.items()}
  return [verification.Check(name, inputs, _arrays(outputs[name])) for name in names]


def of_encoded(
  call: Callable,
  made: Mapping[str, Callable],
  main: str,
  arrays: Mapping[str, np.ndarray],
  decoders: Mapping[str, Callable],
  class_names: Sequence[str] | None,
) -> list[verification.Check]:
  """Builds checks for the signatures that `signatures.build` made.

  Args:
    call: see `of_model`.
    made: the signatures by name.
    main: name of the model's own signature that they are built on.
    arrays: see `of_model`.
    decoders: feature → decoder of a string scalar.
    class_names: the names of the classes, or None.

  Returns:
    The checks. Empty if a decoder makes something other than an image, since there are no bytes to
    try it with.
  """
  rows = min(_IMAGES, *(len(array) for array in arrays.values())) if arrays else _IMAGES
  encoded = {name: _images(arrays[name].shape[1:], rows) for name in decoders}
  if not made or any(files is None for files in encoded.values()):
    return []
  features = {name: array[:rows] for name, array in arrays.items()}
  for name, files in encoded.items():
    features[name] = np.stack([decoders[name](tf.constant(file)).numpy() for file in files])
  outputs = _arrays(call(features)[main])
  received = {
    name: _objects(encoded[name]) if name in encoded else array for name, array in features.items()
  }
  examples = _objects(
    [serialise({name: array[row] for name, array in received.items()}) for row in range(rows)]
  )
  checks = []
  if signatures.FROM_BYTES in made:
    inputs = {input_name(name): array for name, array in received.items()}
    checks.append(verification.Check(signatures.FROM_BYTES, inputs, outputs))
  if signatures.FROM_EXAMPLES in made:
    inputs = {signatures.EXAMPLES: examples}
    checks.append(verification.Check(signatures.FROM_EXAMPLES, inputs, outputs))
  if signatures.CLASSIFY in made and class_names is not None:  # CLASSIFY needs them
    names = _objects([name.encode() for name in class_names] * rows).reshape(rows, -1)
    expected = {"classes": names, "scores": outputs["probabilities"]}
    checks.append(
      verification.Check(signatures.CLASSIFY, {signatures.CLASSIFY_INPUTS: examples}, expected)
    )
  return checks


def serialise(example: Mapping[str, np.ndarray]) -> bytes:
  """Serialises the features of one example as a tf.train.Example.

  Args:
    example: feature → array, or bytes.

  Returns:
    The serialised Example.
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
  return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def make_up_features(specs: Mapping[str, tf.TensorSpec]) -> dict[str, np.ndarray] | None:
  """Makes up inputs for a serving_input_receiver_fn.

  Args:
    specs: name → spec of each received tensor.

  Returns:
    Name → random array. None if an input is a string or has an unknown size.
  """
  random = np.random.RandomState(1)
  arrays = {}
  for name, spec in specs.items():
    if spec.dtype == tf.string or spec.shape.rank is None or None in spec.shape[1:].as_list():
      return None
    shape = [2 if size is None else size for size in spec.shape]
    dtype = spec.dtype.as_numpy_dtype
    arrays[name] = (
      random.rand(*shape) if spec.dtype.is_floating else random.randint(0, 2, shape)
    ).astype(dtype)
  return arrays


def _images(shape, count):
  """Encodes different random images: a PNG of this shape, a larger JPEG, and a higher PNG.

  None if the shape is not that of an image.
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
