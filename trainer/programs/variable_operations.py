"""TensorFlow's operations on variables, as functions of the variables' values.

A rule's function takes the operation's inputs under TensorFlow's names, with a value for each
variable. It returns the operation's result, or the next values of the variables that it assigns.
The formulas of the optimizers come from TensorFlow's kernels for XLA
(tensorflow/compiler/tf2xla/kernels/training_ops.cc).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Rule:
  """The effect of an operation.

  Attributes:
    compute: function of the inputs and attributes, by name. It returns the result, or, for an
      operation that assigns, the tuple of the next values.
    assigns: names of the assigned inputs.
    attributes: names of the attributes that the function takes.
    returns: for an operation that assigns and has a result, the input whose old value is the
      result.
  """

  compute: Callable[..., Any]
  assigns: tuple[str, ...] = ()
  attributes: tuple[str, ...] = ()
  returns: str = ""


def _scatter(function):
  def compute(resource, indices, updates):
    # A scatter of TensorFlow accepts one value for all rows. tensor_scatter_nd_* need every value.
    shape = tf.concat([tf.shape(indices), tf.shape(resource)[1:]], 0)
    return (function(resource, indices[..., tf.newaxis], tf.broadcast_to(updates, shape)),)

  return Rule(compute, ("resource",))


def _scatter_nd(function):
  return Rule(lambda ref, indices, updates: (function(ref, indices, updates),), ("ref",))


def _skipped(resource, alg, delta):
  """The state of a tf.random.Generator after delta numbers: a counter of 128 bits, and the key."""
  del alg  # TensorFlow's kernels have Philox alone
  # State: the low and high half of Philox's counter, and the key. The kernel reserves 256 counts
  # for each number; a sum smaller than its part has overflowed.
  low, high, key = tf.unstack(tf.bitcast(resource, tf.uint64))
  next_low = low + tf.cast(delta, tf.uint64) * tf.constant(256, tf.uint64)
  carried = tf.cast(tf.cast(next_low < low, tf.int32), tf.uint64)
  return (tf.bitcast(tf.stack([next_low, high + carried, key]), tf.int64),)


def _gradient_descent(var, alpha, delta):
  return (var - alpha * delta,)


def _proximal(value, lr, l1, l2):
  """Returns the minimum of l1 and l2 penalties after a step that led to this value."""
  shrunk = tf.sign(value) * tf.maximum(tf.abs(value) - lr * l1, 0.0)
  return shrunk / (1.0 + lr * l2)


def _proximal_gradient_descent(var, alpha, l1, l2, delta):
  return (_proximal(var - alpha * delta, alpha, l1, l2),)


def _momentum(var, accum, lr, grad, momentum, use_nesterov):
  # The accumulator has no learning rate: a changed rate acts at once on all past gradients.
  accum = accum * momentum + grad
  step = grad * lr + accum * momentum * lr if use_nesterov else accum * lr
  return var - step, accum


def _keras_momentum(var, accum, lr, grad, momentum, use_nesterov):
  # The accumulator has each past step's learning rate.
  accum = accum * momentum - grad * lr
  return var + (accum * momentum - grad * lr if use_nesterov else accum), accum


def _adagrad(var, accum, lr, grad, update_slots):
  accum = accum + tf.square(grad) if update_slots else accum
  # Without epsilon: the slot's initial value keeps the root above 0.
  return var - grad * lr * tf.math.rsqrt(accum), accum


def _adagrad_v2(var, accum, lr, epsilon, grad, update_slots):
  accum = accum + tf.square(grad) if update_slots else accum
  return var - grad * lr / (tf.sqrt(accum) + epsilon), accum


def _proximal_adagrad(var, accum, lr, l1, l2, grad):
  accum = accum + tf.square(grad)
  rate = lr * tf.math.rsqrt(accum)
  return _proximal(var - grad * rate, rate, l1, l2), accum


def _adadelta(var, accum, accum_update, lr, rho, epsilon, grad):
  accum = rho * accum + (1 - rho) * tf.square(grad)
  update = grad * tf.sqrt(accum_update + epsilon) * tf.math.rsqrt(accum + epsilon)
  return var - update * lr, accum, rho * accum_update + (1 - rho) * tf.square(update)


def _adam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, use_nesterov):
  alpha = lr * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
  # The kernel's form, instead of beta1 * m + (1 - beta1) * grad: equal rounding.
  m = m + (grad - m) * (1 - beta1)
  v = v + (tf.square(grad) - v) * (1 - beta2)
  first = m * beta1 + (1 - beta1) * grad if use_nesterov else m
  return var - first * alpha / (tf.sqrt(v) + epsilon), m, v


def _ada_max(var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad):
  m = beta1 * m + (1 - beta1) * grad
  # A decaying maximum of past gradients, where Adam has a mean of squares.
  v = tf.maximum(beta2 * v, tf.abs(grad))
  return var - lr / (1 - beta1_power) * (m / (v + epsilon)), m, v


def _rms_prop(var, ms, mom, lr, rho, momentum, epsilon, grad):
  ms = ms + (tf.square(grad) - ms) * (1 - rho)
  mom = mom * momentum + grad * lr * tf.math.rsqrt(ms + epsilon)
  return var - mom, ms, mom


def _centered_rms_prop(var, mg, ms, mom, lr, rho, momentum, epsilon, grad):
  ms = ms + (tf.square(grad) - ms) * (1 - rho)
  # The variance of the gradient: the mean of its squares minus the square of its mean.
  mg = mg + (grad - mg) * (1 - rho)
  mom = mom * momentum + grad * lr * tf.math.rsqrt(ms - tf.square(mg) + epsilon)
  return var - mom, mg, ms, mom


def _ftrl_v2(var, accum, linear, grad, lr, l1, l2, l2_shrinkage, lr_power, multiply_linear_by_lr):
  shrunk = grad + 2.0 * l2_shrinkage * var
  next_accum = accum + tf.square(grad)
  power, next_power = tf.pow(accum, -lr_power), tf.pow(next_accum, -lr_power)
  if multiply_linear_by_lr:
    linear = linear + shrunk * lr - (next_power - power) * var
    bound, quadratic = l1 * lr, next_power + 2.0 * l2 * lr
  else:
    linear = linear + shrunk - (next_power - power) / lr * var
    bound, quadratic = l1, next_power / lr + 2.0 * l2
  return (tf.clip_by_value(linear, -bound, bound) - linear) / quadratic, next_accum, linear


def _ftrl(var, accum, linear, grad, lr, l1, l2, lr_power, multiply_linear_by_lr):
  return _ftrl_v2(var, accum, linear, grad, lr, l1, l2, 0.0, lr_power, multiply_linear_by_lr)


_ACCUMULATED = ("var", "accum")

_SCATTERS = {
  "Update": tf.tensor_scatter_nd_update,
  "Add": tf.tensor_scatter_nd_add,
  "Sub": tf.tensor_scatter_nd_sub,
  "Min": tf.tensor_scatter_nd_min,
  "Max": tf.tensor_scatter_nd_max,
}

# Operation → its effect. TensorFlow has more; a TPU's compiler does not know all of them either.
RULES = {
  "ReadVariableOp": Rule(lambda resource: resource),
  "VarIsInitializedOp": Rule(lambda resource: tf.constant(True)),
  "VariableShape": Rule(
    lambda input, out_type: tf.shape(input, out_type=out_type), attributes=("out_type",)
  ),
  "ResourceGather": Rule(
    lambda resource, indices, batch_dims: tf.gather(resource, indices, batch_dims=batch_dims),
    attributes=("batch_dims",),
  ),
  "RngReadAndSkip": Rule(_skipped, ("resource",), returns="resource"),
  "ResourceGatherNd": Rule(lambda resource, indices: tf.gather_nd(resource, indices)),
  "AssignVariableOp": Rule(lambda resource, value: (value,), ("resource",)),
  "AssignAddVariableOp": Rule(lambda resource, value: (resource + value,), ("resource",)),
  "AssignSubVariableOp": Rule(lambda resource, value: (resource - value,), ("resource",)),
  **{f"ResourceScatter{name}": _scatter(function) for name, function in _SCATTERS.items()},
  **{f"ResourceScatterNd{name}": _scatter_nd(function) for name, function in _SCATTERS.items()},
  "ResourceApplyGradientDescent": Rule(_gradient_descent, ("var",)),
  "ResourceApplyProximalGradientDescent": Rule(_proximal_gradient_descent, ("var",)),
  "ResourceApplyMomentum": Rule(_momentum, _ACCUMULATED, ("use_nesterov",)),
  "ResourceApplyKerasMomentum": Rule(_keras_momentum, _ACCUMULATED, ("use_nesterov",)),
  "ResourceApplyAdagrad": Rule(_adagrad, _ACCUMULATED, ("update_slots",)),
  "ResourceApplyAdagradV2": Rule(_adagrad_v2, _ACCUMULATED, ("update_slots",)),
  "ResourceApplyProximalAdagrad": Rule(_proximal_adagrad, _ACCUMULATED),
  "ResourceApplyAdadelta": Rule(_adadelta, ("var", "accum", "accum_update")),
  "ResourceApplyAdam": Rule(_adam, ("var", "m", "v"), ("use_nesterov",)),
  "ResourceApplyAdaMax": Rule(_ada_max, ("var", "m", "v")),
  "ResourceApplyRMSProp": Rule(_rms_prop, ("var", "ms", "mom")),
  "ResourceApplyCenteredRMSProp": Rule(_centered_rms_prop, ("var", "mg", "ms", "mom")),
  "ResourceApplyFtrl": Rule(_ftrl, ("var", "accum", "linear"), ("multiply_linear_by_lr",)),
  "ResourceApplyFtrlV2": Rule(_ftrl_v2, ("var", "accum", "linear"), ("multiply_linear_by_lr",)),
}
