"""tf.gradients. It combines gradients of variables over the cores at the point of computation.

So a program that clips its gradients by their norm clips the gradient of the whole batch, on any
number of cores.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer.optimization import combined_gradients

v1 = tf.compat.v1


def tensorflow_variable(given: Any) -> Any:
  """Returns the tf.Variable of a Keras variable; returns anything else unchanged."""
  return given.value if isinstance(given, keras.Variable) else given


def gradients(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> list[Any]:
  """As tf.compat.v1.gradients. In a training, gradients of variables are of the whole batch.

  Args:
    ys: a tensor or a list of tensors.
    xs: a variable (Keras variables too), a tensor, or a list of variables and tensors.

  Returns:
    List of tensors, tf.IndexedSlices or None, one for each of xs.
  """
  return combined(v1.gradients, ys, xs, *args, **kwargs)


def gradients_of_2(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> list[Any]:
  """As tf.gradients, with the arguments of TensorFlow 2; see `gradients`."""
  return combined(tf.gradients, ys, xs, *args, **kwargs)


def combined(function: Callable, ys: Any, xs: Any, *args: Any, **kwargs: Any) -> list[Any]:
  """Returns the result of a function such as tf.gradients, combined over the cores."""
  given = [tensorflow_variable(x) for x in (xs if isinstance(xs, list | tuple) else [xs])]
  found = function(ys, given, *args, **kwargs)
  return combined_gradients.combine_at_source(found, given)
