"""AdamOptimizer's update of a small variable, as single operations in a program's functions.

TensorFlow's own kernel shares the work among threads at any size. Waking the threads takes longer
than the update of a bias or of a small layer's weights: a network of three small layers trained at
half the speed.
"""

import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import habits
from trainer.internals import patches, tensorflow_internals

# The most entries of a variable to update like this. Threads share the work of a larger one well.
_LARGEST = 1 << 14

# Graph → {names of the source tensors: scalar}: what the newest apply_gradients needs for every
# variable. Computing it again takes as long as the update of a bias.
_scalars: weakref.WeakKeyDictionary[Any, dict[Any, tf.Tensor]] = weakref.WeakKeyDictionary()


@patches.replaces(*tensorflow_internals.PREPARE_ADAM)
def _prepare(original, self):
  # The last apply_gradients changed beta1_power and beta2_power, so the cached scalars are old.
  _scalars.pop(tf.compat.v1.get_default_graph(), None)
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

  first = value(m)
  first += (grad - first) * _once(lambda: 1 - beta1, beta1)
  second = value(v)
  second += (tf.square(grad) - second) * _once(lambda: 1 - beta2, beta2)
  change = first * _rate(lr, beta1_power, beta2_power) / (tf.sqrt(second) + epsilon)
  return tf.group(
    tf.raw_ops.AssignVariableOp(resource=m, value=first),
    tf.raw_ops.AssignVariableOp(resource=v, value=second),
    tf.raw_ops.AssignSubVariableOp(resource=var, value=change),
    name=name,
  )


def _rate(lr: Any, beta1_power: Any, beta2_power: Any) -> tf.Tensor:
  """The learning rate of a step, lr * sqrt(1 - beta2^t) / (1 - beta1^t)."""
  return _once(
    lambda: lr * tf.sqrt(1 - beta2_power) / (1 - beta1_power), lr, beta1_power, beta2_power
  )


def _once(make: Callable[[], tf.Tensor], *sources: tf.Tensor) -> tf.Tensor:
  """Returns what `make` computes from scalars, computed once in an apply_gradients."""
  scalars = _scalars.setdefault(tf.compat.v1.get_default_graph(), {})
  key = tuple(_name(source) for source in sources)
  if key not in scalars:
    scalars[key] = make()
  return scalars[key]


def _name(tensor: tf.Tensor) -> str:
  """Returns the name of the variable's handle behind a read, or of the tensor itself."""
  reads = tensor.op.type == "ReadVariableOp"
  return (tensor.op.inputs[0] if reads else tensor).name
