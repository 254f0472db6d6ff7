"""The kernel gradient of Conv2D as matrix products: equal to oneDNN's, and only where faster."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainer.tracing import cpu_kernels
from trainer.tracing.cpu_kernels import convolution


@pytest.fixture
def calls(monkeypatch):
  """The shapes of the kernels whose gradients were matrix products."""
  shapes = []
  original = convolution._kernel_gradient

  def counted(inputs, shape, of_outputs):
    shapes.append(tuple(shape))
    return original(inputs, shape, of_outputs)

  monkeypatch.setattr(convolution, "_kernel_gradient", counted)
  return shapes


def gradients(inputs, replaced=True, **settings):
  """(outputs, gradient of the inputs, of the kernel and of the bias) of a Conv2D with 256 filters.

  All values are whole numbers that bfloat16 has, so sums of few of them are exact.
  """
  settings = {"filters": 256, "kernel_size": 3, "padding": "same", "dtype": "bfloat16"} | settings
  layer = keras.layers.Conv2D(**settings)
  layer.build(inputs.shape)
  random = np.random.RandomState(1)
  layer.kernel.assign(random.randint(-1, 2, layer.kernel.shape))
  outputs = layer(inputs)
  direction = tf.cast(random.randint(-1, 2, outputs.shape), outputs.dtype)

  @tf.function(autograph=False)
  def step(inputs):
    with cpu_kernels.use() if replaced else contextlib.nullcontext(), tf.GradientTape() as tape:
      tape.watch(inputs)
      outputs = layer(inputs)
    variables = [variable.value for variable in layer.trainable_variables]
    return outputs, tape.gradient(outputs, [inputs, *variables], direction)

  return tf.nest.map_structure(lambda value: np.asarray(value, np.float32), step(inputs))


def images(height, width, channels=256, batch=2, dtype="bfloat16"):
  values = np.random.RandomState(0).randint(-1, 2, [batch, height, width, channels])
  return tf.cast(values, dtype)


@pytest.mark.parametrize("size", [(7, 7), (3, 3), (1, 1), (5, 10)])
@pytest.mark.parametrize("kernel", [3, 2, (1, 4), (5, 2)])
def test_gradients_equal_those_of_tensorflow(size, kernel, calls):
  inputs = images(*size)
  found = gradients(inputs, kernel_size=kernel)
  expected = gradients(inputs, replaced=False, kernel_size=kernel)
  tf.nest.map_structure(np.testing.assert_array_equal, found, expected)
  assert np.abs(found[1][1]).max() > 1
  assert len(calls) == 1


@pytest.mark.parametrize(
  ("inputs", "settings"),
  [
    (images(7, 7, dtype="float32"), {"dtype": "float32"}),
    (images(7, 7), {"padding": "valid"}),
    (images(7, 7), {"strides": 2}),
    (images(7, 7), {"dilation_rate": 2}),
    (images(7, 7, channels=512), {"groups": 2}),
    (images(7, 7), {"kernel_size": 1}),
    (images(7, 7), {"filters": 128}),
    (images(7, 7, channels=128), {}),
    (images(11, 7), {}),
  ],
)
def test_other_convolutions_keep_the_gradient_of_tensorflow(inputs, settings, calls):
  gradients(inputs, **settings)
  assert not calls


def test_the_batch_may_be_of_unknown_size(calls):
  layer = keras.layers.Conv2D(256, 3, padding="same", dtype="bfloat16")
  layer.build([None, 4, 4, 256])

  @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, 4, 4, 256], tf.bfloat16)])
  def gradient(inputs):
    with cpu_kernels.use(), tf.GradientTape() as tape:
      outputs = layer(inputs)
    return tape.gradient(outputs, layer.kernel.value)

  # The middle of the kernel meets every pixel.
  np.testing.assert_array_equal(gradient(tf.ones([3, 4, 4, 256], tf.bfloat16))[1, 1], 3 * 4 * 4)
  assert calls == [(3, 3, 256, 256)]
