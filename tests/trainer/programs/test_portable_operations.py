"""Arrays whose size depends on the data: within a program, and as its results."""

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.programs import pure
from trainer.programs import functionalize

SPECS = tf.TensorSpec([6, 2]), tf.TensorSpec([6], tf.bool)
X = tf.constant(np.random.RandomState(0).randn(6, 2), tf.float32)
MASK = tf.constant([True, False, True, True, False, False])


def summed(x, mask):
  return tf.reduce_sum(tf.boolean_mask(x, mask))


def gradient(x, mask):
  with tf.GradientTape() as tape:
    tape.watch(x)
    mean = tf.reduce_mean(tf.square(tf.boolean_mask(x, mask)))
  return tape.gradient(mean, x)


def first(x, mask):
  return tf.gather(x, tf.where(mask)[0, 0])


def rows_of_a_constant(x, mask):
  return tf.gather(x, tf.where(tf.constant([True, False, True, False, True, True]))[:, 0])


@pytest.mark.parametrize("function", [summed, gradient, first, rows_of_a_constant])
def test_where_a_size_does_not_leave_the_program(function):
  (found,) = pure.compiled(function, *SPECS)(X, MASK)
  np.testing.assert_allclose(found, function(X, MASK), rtol=1e-6)


def masked(x, mask):
  return x, tf.boolean_mask(x, mask) * 2.0  # leaves


def indexes(x, mask):
  return tf.where(mask)  # leaves


@pytest.mark.parametrize("function", [masked, indexes])
def test_a_result_of_a_size_of_the_data_is_named_with_its_place(function):
  with open(__file__) as file:
    lines = file.read().splitlines()
  start = lines.index(f"def {function.__name__}(x, mask):") + 1
  with pytest.raises(
    functionalize.ImpureError,
    match=rf"Where \({__file__}:{start + 1}\) has a data-dependent number of rows",
  ):
    pure.compiled(function, *SPECS)(X, MASK)
