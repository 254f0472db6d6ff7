"""AdamOptimizer's update of a small variable, as single operations in a program's functions.

TensorFlow's own kernel shares the work among threads whatever its size. To wake them takes longer
than the update of a bias, or of the weights of a small layer: a network of three small
layers trained at half the speed.
"""

from typing import Any

import tensorflow as tf

from trainer.compat.v1 import habits
from trainer.internals import patches, tensorflow_internals

# The most entries of a variable that is updated so; of a larger one, threads share the work well.
_LARGEST = 1 << 14


@patches.replaces(*tensorflow_internals.APPLY_ADAM)
def _apply_adam(
  original,
  var: tf.Tensor,
  m: tf.Tensor,
  v: tf.Tensor,
  beta1_power: Any,
  beta2_power: Any,
  lr: Any,
  beta1: Any,
  beta2: Any,
  epsilon: Any,
  grad: tf.Tensor,
  use_locking: bool = False,
  use_nesterov: bool = False,
  name: str | None = None,
):
  """As the operation of this name; `var`, `m` and `v` are handles."""
  size = grad.shape.num_elements()
  if use_nesterov or size is None or size > _LARGEST or not habits.are_kept():
    return original(
      var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, use_locking,
      use_nesterov, name,
    )  # fmt: skip

  def value(handle: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=grad.dtype)

  one = tf.ones([], grad.dtype)
  first = value(m)
  first += (grad - first) * (one - beta1)
  second = value(v)
  second += (tf.square(grad) - second) * (one - beta2)
  rate = lr * tf.sqrt(one - beta2_power) / (one - beta1_power)
  change = first * rate / (tf.sqrt(second) + epsilon)
  return tf.group(
    tf.raw_ops.AssignVariableOp(resource=m, value=first),
    tf.raw_ops.AssignVariableOp(resource=v, value=second),
    tf.raw_ops.AssignSubVariableOp(resource=var, value=change),
    name=name,
  )
