"""Updates a large variable with one Adam operation, for the Keras optimizer on a CPU.

Keras's update makes twelve passes over a variable and its two averages. TensorFlow's
ResourceApplyAdam, which `tf.compat.v1.train.AdamOptimizer` uses, computes the same formula in one:

    m += (gradient - m) (1 - β₁)
    v += (gradient² - v) (1 - β₂)
    variable -= m α / (√v + ε),   α = rate √(1 - β₂ᵗ) / (1 - β₁ᵗ)

Source: D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization" (2015), section 2, with
the order of computation given at its end. Results differ from Keras's by rounding.

The operation wakes the CPU's threads for every variable. For small variables that costs more than
it saves, so Keras keeps updating those.
"""

import keras
import tensorflow as tf

from trainer.internals import keras_internals, patches
from trainer.tracing import replica_updates
from trainer.tracing.cpu_kernels import switch

# Variables with at least this many elements are large. The digits model has variables of at most
# 8,192 elements; with this operation its step took 80 µs longer.
LARGE = 10_000

_update_step = keras.optimizers.Adam.update_step


@patches.replaces(*keras_internals.ADAM_UPDATE, inside=switch.is_on)
def _update(keras_update, optimizer, gradients, variables, learning_rate):
  """Updates all variables of an Adam or AdamW from combined gradients."""
  # A subclass that changes update_step, and AMSGrad, have other formulas.
  if optimizer.amsgrad or type(optimizer).update_step is not _update_step:
    return keras_update(optimizer, gradients, variables, learning_rate)
  large, rest = [], []
  for gradient, variable in zip(gradients, variables, strict=True):
    target = variable if isinstance(variable, tf.Variable) else variable.value
    (large if _is_large(target) else rest).append((gradient, target))
  if rest:
    keras_update(optimizer, *zip(*rest, strict=True), learning_rate)
  if large:
    _apply(optimizer, large, learning_rate)


def _is_large(target):
  return target.dtype == tf.float32 and target.shape.num_elements() >= LARGE


def _apply(optimizer, pairs, learning_rate):
  count = tf.cast(optimizer.iterations + 1, tf.float32)
  gradients, targets = zip(*pairs, strict=True)

  def apply(target, gradient, rate, beta_1_power, beta_2_power):
    momentum, velocity = keras_internals.averages(optimizer, target)
    tf.raw_ops.ResourceApplyAdam(
      var=target.handle,
      m=momentum.value.handle,
      v=velocity.value.handle,
      beta1_power=beta_1_power,
      beta2_power=beta_2_power,
      lr=rate,
      beta1=optimizer.beta_1,
      beta2=optimizer.beta_2,
      epsilon=optimizer.epsilon,
      grad=tf.cast(tf.convert_to_tensor(gradient), tf.float32),
    )

  shared = (
    tf.cast(learning_rate, tf.float32),
    tf.pow(optimizer.beta_1, count),
    tf.pow(optimizer.beta_2, count),
  )
  of_each = [[one] * len(targets) for one in shared]
  replica_updates.update_each(apply, targets, gradients, *of_each)
