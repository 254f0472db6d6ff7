"""Resizes of images and their gradients, as products with matrices of weights.

Each method is separable: new rows are weighted sums of rows, and then new columns of columns. The
weights are constants of the program. TensorFlow lowers resizes for a CPU as gathers and scatters,
which take a TPU many times the memory and the time of two products; it does not lower the gradient
of nearest neighbour, nor the other methods at all.

A product adds each pixel with a weight of 0 to the other pixels of its row and column: one infinite
or NaN pixel makes all of them NaN.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from trainer.internals import tensorflow_internals

# The attributes of all methods that relate the places of new and old pixels.
_ATTRIBUTES = ("align_corners", "half_pixel_centers", "kernel_type", "antialias")


def _matrices(operation, inputs, before, after):
  """Returns the matrices [after, before] that resize the rows and the columns.

  TensorFlow's own kernels compute them, from an image of one column whose channels are the unit
  vectors.

  Args:
    operation: the traced resize, or its gradient.
    inputs: its new inputs.
    before: shape [height, width] of the images.
    after: shape [height, width] of the resized images.

  Returns:
    The two matrices, or None if a size is unknown.
  """
  scaled = operation.type.startswith("ScaleAndTranslate")
  moved = [_constant(each) for each in inputs[2:]] if scaled else []
  if not (before.is_fully_defined() and after.is_fully_defined()) or any(
    each is None for each in moved
  ):
    return None
  attributes = {
    name: operation.get_attr(name) for name in _ATTRIBUTES if name in operation.node_def.attr
  }
  kernel = getattr(tf.raw_ops, operation.type.removesuffix("Grad"))
  matrices = []
  for axis, (old, new) in enumerate(zip(before, after, strict=True)):
    if scaled:
      scale, translation = moved
      attributes.update(scale=[scale[axis], 1], translation=[translation[axis], 0])
    with tf.init_scope(), tf.device("/cpu:0"):
      units = tf.reshape(tf.eye(old), [1, old, 1, old])
      resized = kernel(images=units, size=[new, 1], **attributes)
      matrices.append(tf.reshape(resized, [new, old]).numpy())
  return matrices


def _constant(tensor):
  """Returns the value of a tensor that tf.image.resize computes from sizes, or None."""
  value, operation = tf.get_static_value(tensor), tensor.op
  if value is not None or operation.type not in ("Cast", "RealDiv", "StridedSlice"):
    return value
  inputs = [_constant(each) for each in operation.inputs]
  if any(each is None for each in inputs):
    return None
  names = [argument.name for argument in operation.op_def.input_arg]
  of_inputs = [argument.type_attr for argument in operation.op_def.input_arg]
  attributes = {
    attribute.name: operation.get_attr(attribute.name)
    for attribute in operation.op_def.attr
    if attribute.name not in of_inputs
  }
  with tf.init_scope():
    compute = getattr(tf.raw_ops, operation.type)
    return compute(**dict(zip(names, inputs, strict=True)), **attributes).numpy()


def _multiplied(images, rows, columns):
  """Returns images [batch, height, width, channels] with other rows and columns.

  Args:
    images: float32 or float64.
    rows: matrix [new height, height].
    columns: matrix [new width, width].
  """
  for matrix in (rows, columns):  # the new axis becomes the last: [batch, width, channels, rows]
    images = tensorflow_internals.xla_exact_product(images, 1, tf.constant(matrix, images.dtype), 1)
  return tf.transpose(images, [0, 2, 3, 1])


def _resized(operation: tf.Operation, inputs: Sequence[tf.Tensor]) -> Sequence[tf.Tensor] | None:
  """A rule: a resize."""
  (result,), images = operation.outputs, inputs[0]
  matrices = _matrices(operation, inputs, images.shape[1:3], result.shape[1:3])
  if matrices is None:
    return None
  if result.dtype in (tf.int32, tf.int64):
    # Nearest neighbour of integers that float32 does not hold: each new row is one of the old.
    rows, columns = (np.argmax(matrix, 1) for matrix in matrices)
    return [tf.gather(tf.gather(images, rows, axis=1), columns, axis=2)]
  wide = tf.float64 if result.dtype == tf.float64 else tf.float32
  return [tf.cast(_multiplied(tf.cast(images, wide), *matrices), result.dtype)]


def _gradient(operation: tf.Operation, inputs: Sequence[tf.Tensor]) -> Sequence[tf.Tensor] | None:
  """A rule: the gradient of a resize is the product with the transposed matrices."""
  (result,), gradients = operation.outputs, inputs[0]
  matrices = _matrices(operation, inputs, result.shape[1:3], gradients.shape[1:3])
  if matrices is None:
    return None
  wide = tf.float64 if result.dtype == tf.float64 else tf.float32
  rows, columns = (matrix.T for matrix in matrices)
  return [tf.cast(_multiplied(tf.cast(gradients, wide), rows, columns), result.dtype)]


# As `random_operations.RULES`.
RULES: dict[str, Callable[[tf.Operation, Sequence[tf.Tensor]], Sequence[tf.Tensor] | None]] = {
  "ResizeArea": _resized,
  "ResizeBicubic": _resized,
  "ResizeBicubicGrad": _gradient,
  "ResizeBilinear": _resized,
  "ResizeBilinearGrad": _gradient,
  "ResizeNearestNeighbor": _resized,
  "ResizeNearestNeighborGrad": _gradient,
  "ScaleAndTranslate": _resized,  # tf.image.resize with antialias, or by Lanczos, Gauss, Mitchell
  "ScaleAndTranslateGrad": _gradient,
}
