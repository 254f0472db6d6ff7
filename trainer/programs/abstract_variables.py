"""Variables with a shape and a dtype and without values: a compiler needs no values.

    with tf.variable_creator_scope(without_values):
      ...

A model that fills a TPU need not fit into the memory of the compiling machine.
"""

from typing import Any

import numpy as np
import tensorflow as tf

# The exchange with numpy without a copy knows neither bool nor bfloat16.
_KNOWN_TO_DLPACK = (tf.float16, tf.float32, tf.float64, tf.int8, tf.int32, tf.int64, tf.uint8)


def without_values(next_creator: Any, **kwargs: Any) -> tf.Variable:
  """Makes a variable with reserved, unwritten memory."""
  shape, dtype = _spec(kwargs["initial_value"], kwargs.get("dtype"))
  # numpy reserves memory, and Linux allocates it at the first write. TensorFlow's own allocator has
  # a limit.
  values = np.empty(shape, dtype.as_numpy_dtype)
  if dtype in _KNOWN_TO_DLPACK:
    values = tf.experimental.dlpack.from_dlpack(values.__dlpack__())
  return next_creator(**dict(kwargs, initial_value=values))


def _spec(value, dtype):
  """Returns the shape and dtype of an initial value; traces a function without computing it."""
  if not callable(value):
    tensor = tf.convert_to_tensor(value, dtype)
  else:
    traced = tf.function(lambda: tf.convert_to_tensor(value(), dtype), autograph=False)
    tensor = traced.get_concrete_function().structured_outputs
  return tensor.shape, tensor.dtype
