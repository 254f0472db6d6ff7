"""tf.gradients: of variables, combined over the cores where they are computed.

A program that clips its gradients by their norm before it applies them clips the gradient of the
whole batch then, on any number of cores.
"""

from typing import Any

import tensorflow as tf

from trainer import combined_gradients

v1 = tf.compat.v1


def gradients(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> list[Any]:
  """As tf.compat.v1.gradients; in a training, those of variables are of the whole batch.

  Args:
    ys: a tensor or a list of tensors.
    xs: a variable or tensor, or a list of these.

  Returns:
    List of tensors, tf.IndexedSlices or None, one for each of xs.
  """
  found = v1.gradients(ys, xs, *args, **kwargs)
  return combined_gradients.combine_at_source(found, xs if isinstance(xs, list | tuple) else [xs])
