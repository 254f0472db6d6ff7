"""Variables without values."""

import psutil
import pytest
import tensorflow as tf

from trainer.programs import abstract_variables


def make(value, dtype=None):
  with tf.variable_creator_scope(abstract_variables.without_values):
    return tf.Variable(value, dtype=dtype)


DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int64", "uint32", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [[], [0], [2, 3]], ids=str)
def test_shape_and_dtype_are_those_asked_for(dtype, shape):
  variable = make(lambda: tf.zeros(shape, dtype))
  assert (variable.shape, variable.dtype.name) == (shape, dtype)


def test_a_number_may_have_another_dtype():
  assert make(1, tf.float64).dtype == tf.float64
  assert make([[1, 2]]).shape == [1, 2]


def test_a_function_is_not_computed():
  def large():
    return tf.random.normal([2**20, 2**10]) + tf.numpy_function(1 / 0, [], tf.float32)

  def broken():
    with pytest.raises(ZeroDivisionError):
      large()
    return tf.ensure_shape(tf.numpy_function(lambda: 1 / 0, [], tf.float32), [3])

  assert make(broken).shape == [3]


def test_a_variable_takes_no_memory():
  before = psutil.Process().memory_info().rss
  variable = make(lambda: tf.zeros([2**28]))  # a GiB
  assert variable.shape == [2**28]
  assert psutil.Process().memory_info().rss - before < 2**27
