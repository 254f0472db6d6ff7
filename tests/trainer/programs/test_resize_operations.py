"""Resizes as products give TensorFlow's own results."""

import numpy as np
import pytest
import tensorflow as tf

from tests import long
from tests.trainer.programs import pure

BEFORE = (9, 12)
# Each axis has its own matrix: smaller, a whole and a broken number of times larger, one pixel, as
# it was.
AFTER = [(5, 30), (18, 1), (9, 7)]
SMALLER = [(5, 7), (20, 5)]  # in one direction at least: nothing else is smoothed
HOW = [{}, {"align_corners": True}, {"half_pixel_centers": True}]
METHODS = ["ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"]


def random(*shape, dtype=np.float32):
  return tf.constant(np.random.RandomState(0).randn(*shape), dtype)


@pytest.mark.parametrize("method", METHODS)
def test_as_tensorflow_resizes(method):
  """Each size in each of the ways, in one program: XLA compiles it once."""
  resize = getattr(tf.raw_ops, method)
  gradient = getattr(tf.raw_ops, f"{method}Grad", None)
  hows = [how for how in HOW if method != "ResizeArea" or "half_pixel_centers" not in how]
  images = random(2, *BEFORE, 3)
  gradients = [random(2, *size, 3) for size in AFTER]
  before = {"size": BEFORE} if method == "ResizeNearestNeighbor" else {"original_image": images}

  def function(images, *gradients):
    return {
      (str(how), size): (
        resize(images=images, size=size, **how),
        # TensorFlow has no gradient of ResizeArea.
        gradient(grads=each, **before, **how) if gradient else tf.zeros([]),
      )
      for how in hows
      for size, each in zip(AFTER, gradients, strict=True)
    }

  expected = function(images, *gradients)
  found = pure.compiled(function, *map(tf.TensorSpec.from_tensor, (images, *gradients)))
  found = tf.nest.pack_sequence_as(expected, found(images, *gradients))
  for way, values in expected.items():
    for value, wanted in zip(found[way], values, strict=True):
      np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-5, err_msg=str(way))


@pytest.mark.parametrize(
  "method",
  # One operation of TensorFlow has all kernels.
  long.except_for(
    ["bilinear", "bicubic", "lanczos3"],
    ["bilinear", "bicubic", "lanczos3", "gaussian", "mitchellcubic"],
  ),
)
def test_antialiased_with_gradients(method):
  images = random(2, *BEFORE, 3)

  def function(images):
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(images)
      resized = [tf.image.resize(images, size, method, antialias=True) for size in SMALLER]
      loss = tf.add_n([tf.reduce_sum(tf.square(each)) for each in resized])
    return resized, tape.gradient(loss, images)

  found = pure.compiled(function, tf.TensorSpec.from_tensor(images))(images)
  for each, value in zip(found, tf.nest.flatten(function(images)), strict=True):
    np.testing.assert_allclose(each, value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["nearest", "bilinear"])
def test_floats(method):
  images = random(1, 4, 5, 2, dtype=np.float64)
  dtypes = ["bfloat16", "float16", "float32", "float64"]
  each = [tf.cast(images, dtype) for dtype in dtypes]
  assert_resized(each, method, 0 if method == "nearest" else 1e-5)


@pytest.mark.parametrize("method", ["nearest", "bilinear"])
def test_integers(method):
  each = []
  for dtype in ("uint8", "int16", "int32", "int64"):
    largest = tf.as_dtype(dtype).max if method == "nearest" else 127
    images = np.random.RandomState(0).randint(0, largest, (1, 4, 5, 2), np.int64)
    each.append(tf.cast(images, dtype))
  assert_resized(each, method, 0 if method == "nearest" else 1e-4)


def assert_resized(each, method, tolerance):
  """Asserts that images of several dtypes become TensorFlow's, in one program."""
  resize = lambda *each: [tf.image.resize(images, [7, 3], method) for images in each]
  found = pure.compiled(resize, *map(tf.TensorSpec.from_tensor, each))(*each)
  for images, value, wanted in zip(each, found, resize(*each), strict=True):
    name = images.dtype.name
    assert value.dtype == wanted.dtype, name
    np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance, err_msg=name)


def test_a_resize_in_a_network_trains():
  """By Keras's layer, whose gradient goes on to the weights below it."""
  images, kernel = random(2, 6, 6, 3), random(3, 3, 3, 4)

  def function(images, kernel):
    with tf.GradientTape() as tape:
      tape.watch(kernel)
      features = tf.nn.conv2d(images, kernel, 1, "SAME")
      large = tf.image.resize(features, [12, 12])
      loss = tf.reduce_sum(tf.nn.relu(large))
    return loss, tape.gradient(loss, kernel)

  specs = [tf.TensorSpec.from_tensor(each) for each in (images, kernel)]
  found = pure.compiled(function, *specs)(images, kernel)
  for each, value in zip(found, function(images, kernel), strict=True):
    np.testing.assert_allclose(each, value, rtol=1e-5, atol=1e-5)


def test_the_program_has_products_alone():
  def function(images):
    with tf.GradientTape() as tape:
      tape.watch(images)
      large = tf.image.resize(images, [8, 8])
    return tape.gradient(large, images)

  spec = tf.TensorSpec([2, 5, 5, 3])
  text = pure.compiled(function, spec).experimental_get_compiler_ir(spec)(stage="hlo")
  assert " dot(" in text
  assert " gather(" not in text
  assert " scatter(" not in text
  # Else a TPU rounds the pixels to bfloat16.
  assert all(
    "operand_precision={highest,highest}" in line for line in text.splitlines() if " dot(" in line
  )
