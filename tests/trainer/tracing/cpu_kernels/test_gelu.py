"""GELU in one pass: the formula and its derivative, and only for large tensors."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainer.tracing import cpu_kernels
from trainer.tracing.cpu_kernels import gelu

LARGE = (4, gelu.SMALLEST // 4)


def value_and_gradient(function, x, replaced=True):
  """(value, gradient, whether XLA computes the value) of an activation of x."""

  @tf.function(autograph=False)
  def step(x):
    with cpu_kernels.use() if replaced else contextlib.nullcontext(), tf.GradientTape() as tape:
      tape.watch(x)
      y = function(x)
    return y, tape.gradient(y, x, tf.cast(2, x.dtype) * tf.ones_like(x))

  graph = step.get_concrete_function(tf.TensorSpec.from_tensor(x)).graph
  return *step(x), "_XlaMustCompile" in str(graph.as_graph_def())


def numbers(shape, dtype="float32"):
  return tf.cast(3 * tf.random.stateless_normal(shape, [1, 2]), dtype)


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("module", [keras.ops, tf.nn])
def test_value_and_gradient_equal_float64(module, approximate):
  x = numbers(LARGE)
  of_kind = lambda x: module.gelu(x, approximate=approximate)
  y, gradient, by_xla = value_and_gradient(of_kind, x)
  exact = value_and_gradient(of_kind, tf.cast(x, tf.float64), replaced=False)
  assert by_xla
  assert not exact[2]
  # Also of the small values of negative numbers most digits are right.
  np.testing.assert_allclose(y, exact[0], rtol=3e-5, atol=1e-14)
  np.testing.assert_allclose(gradient, exact[1], rtol=3e-5, atol=1e-6)
  assert np.abs(exact[1]).max() > 2


@pytest.mark.parametrize("approximate", [False, True])
def test_bfloat16_is_rounded_once(approximate):
  x = numbers(LARGE, "bfloat16")
  found = value_and_gradient(lambda x: tf.nn.gelu(x, approximate), x)
  exact = value_and_gradient(
    lambda x: tf.nn.gelu(x, approximate), tf.cast(x, tf.float32), replaced=False
  )
  for value, expected in zip(found[:2], exact[:2], strict=True):
    assert value.dtype == tf.bfloat16
    # Half of the last of bfloat16's 8 bits.
    np.testing.assert_allclose(tf.cast(value, tf.float32), expected, rtol=2**-8, atol=1e-5)


@pytest.mark.parametrize(
  "x",
  [numbers([100, 100]), numbers(LARGE, "float64"), numbers(LARGE, "float16")],
  ids=["small", "float64", "float16"],
)
def test_other_tensors_keep_the_operations_of_tensorflow(x):
  assert not value_and_gradient(lambda x: tf.nn.gelu(x), x)[2]


def test_unknown_batch_size_keeps_tensorflows_operations():
  @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, LARGE[1]])])
  def step(x):
    with cpu_kernels.use():
      return tf.nn.gelu(x)

  assert "_XlaMustCompile" not in str(step.get_concrete_function().graph.as_graph_def())
