"""AdamOptimizer's update of a small variable, as single operations in a program's functions.

TensorFlow's own kernel shares the work among threads whatever its size. To wake them takes longer
than the update of a bias, or of the weights of a small layer: a network of three small
layers trained at half the speed.
"""

import weakref
from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import habits
from trainer.internals import patches, tensorflow_internals

# The most entries of a variable that is updated so; of a larger one, threads share the work well.
_LARGEST = 1 << 14

# Graph → {name of the tensor: rate}: the learning rates of the newest apply_gradients, which are
# the same for all of its variables. To compute one takes as long as the update of a bias.
_rates: weakref.WeakKeyDictionary[Any, dict[Any, tf.Tensor]] = weakref.WeakKeyDictionary()


@patches.replaces(*tensorflow_internals.PREPARE_ADAM)
def _prepare(original, self):
  # This apply_gradients comes after what the last one made of beta1_power and beta2_power.
  _rates.pop(tf.compat.v1.get_default_graph(), None)
  return original(self)


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
  if use_nesterov or size is None or size > _LARGEST or not habits.are_enabled():
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
  change = first * _rate(lr, beta1_power, beta2_power) / (tf.sqrt(second) + epsilon)
  return tf.group(
    tf.raw_ops.AssignVariableOp(resource=m, value=first),
    tf.raw_ops.AssignVariableOp(resource=v, value=second),
    tf.raw_ops.AssignSubVariableOp(resource=var, value=change),
    name=name,
  )


def _rate(lr: Any, beta1_power: Any, beta2_power: Any) -> tf.Tensor:
  """The learning rate of a step, lr * sqrt(1 - beta2^t) / (1 - beta1^t)."""
  rates = _rates.setdefault(tf.compat.v1.get_default_graph(), {})
  key = tuple(_source(tensor) for tensor in (lr, beta1_power, beta2_power))
  if key not in rates:
    one = tf.ones([], lr.dtype)
    rates[key] = lr * tf.sqrt(one - beta2_power) / (one - beta1_power)
  return rates[key]


def _source(tensor: tf.Tensor) -> str:
  """The name of the variable's handle that a tensor is read from, or of the tensor itself."""
  reads = tensor.op.type == "ReadVariableOp"
  return (tensor.op.inputs[0] if reads else tensor).name
