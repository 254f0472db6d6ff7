"""tf.contrib.nn."""

from typing import Any

import tensorflow as tf


def nth_element(input: tf.Tensor, n: Any, reverse: bool = False, name: Any = None) -> tf.Tensor:
  """Returns the n-th smallest value of the last axis, or the n-th largest with reverse."""
  return tf.raw_ops.NthElement(input=input, n=n, reverse=reverse, name=name)


def scaled_softplus(x: Any, alpha: Any, clip: Any = None, name: Any = None) -> tf.Tensor:
  """Returns alpha * softplus(x / alpha), at most clip."""
  with tf.name_scope(name or "scaled_softplus"):
    y = alpha * tf.nn.softplus(x / alpha)
    return y if clip is None else tf.minimum(y, clip)
