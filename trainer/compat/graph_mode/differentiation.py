"""tf.gradients: of variables, combined over the cores where they are computed.

A program that clips its gradients by their norm before it applies them clips the gradient of the
whole batch then, on any number of cores.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer.optimization import combined_gradients

v1 = tf.compat.v1


def tensorflow_variable(given: Any) -> Any:
  """The tf.Variable of a variable of Keras; anything else as it is."""
  return given.value if isinstance(given, keras.Variable) else given


def gradients(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> list[Any]:
  """As tf.compat.v1.gradients; in a training, those of variables are of the whole batch.

  Args:
    ys: a tensor or a list of tensors.
    xs: a variable, also of Keras, or tensor, or a list of these.

  Returns:
    List of tensors, tf.IndexedSlices or None, one for each of xs.
  """
  return combined(v1.gradients, ys, xs, *args, **kwargs)


def gradients_of_2(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> list[Any]:
  """As tf.gradients, with the arguments of TensorFlow 2; see `gradients`."""
  return combined(tf.gradients, ys, xs, *args, **kwargs)


def combined(function: Callable, ys: Any, xs: Any, *args: Any, **kwargs: Any) -> list[Any]:
  """What a function such as tf.gradients gives, combined over the cores; see `gradients`."""
  given = [tensorflow_variable(x) for x in (xs if isinstance(xs, list | tuple) else [xs])]
  found = function(ys, given, *args, **kwargs)
  return combined_gradients.combine_at_source(found, given)
