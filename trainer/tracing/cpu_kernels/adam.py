"""Adam's update of a large variable as one operation, for the Keras optimizer on a CPU.

Keras writes the update as twelve passes over a variable and its two averages. TensorFlow's
ResourceApplyAdam, which `tf.compat.v1.train.AdamOptimizer` uses, has the same formula and makes
one:

    m += (gradient - m) (1 - β₁);  v += (gradient² - v) (1 - β₂);  variable -= m α / (√v + ε),  α =
                                   rate √(1 - β₂ᵗ) / (1 - β₁ᵗ)

D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization" (2015), section 2, the order of
computation at its end. Results differ by rounding.

It wakes the threads of the CPU for every variable, so that small ones are left to Keras.
"""

import contextlib
import contextvars

import keras
import tensorflow as tf

from trainer.internals import keras_internals, patches

# Elements from which on a variable is large. Of the digits' variables, of 8,192 and less, the
# update is slower so, by 80 µs a step.
LARGE = 10_000

_update_step = keras.optimizers.Adam.update_step
_is_used = contextvars.ContextVar("Adam in one operation", default=False)


def use() -> contextlib.AbstractContextManager[None]:
  """Inside, a traced Adam or AdamW of Keras updates so."""
  return patches.set_context(_is_used, True)


@patches.replaces(*keras_internals.ADAM_UPDATE)
def _update(keras_update, optimizer, gradients, variables, learning_rate):
  """Of an Adam or AdamW whose gradients are the same on all replicas."""
  replaces = _is_used.get() and not optimizer.amsgrad
  if not replaces or type(optimizer).update_step is not _update_step:
    return keras_update(optimizer, gradients, variables, learning_rate)
  large, rest = [], []
  for gradient, variable in zip(gradients, variables, strict=True):
    target = variable if isinstance(variable, tf.Variable) else variable.value
    (large if _is_large(gradient, target) else rest).append((gradient, target))
  if rest:
    keras_update(optimizer, *zip(*rest, strict=True), learning_rate)
  if large:
    _apply(optimizer, large, learning_rate)


def _is_large(gradient, target):
  return (
    isinstance(gradient, tf.Tensor)
    and target.dtype == tf.float32
    and target.shape.num_elements() >= LARGE
  )


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
      grad=tf.cast(gradient, tf.float32),
    )

  def apply_each(strategy, gradients, *scalars):
    for target, gradient in zip(targets, gradients, strict=True):
      strategy.extended.update(target, apply, args=(gradient, *scalars), group=False)

  tf.__internal__.distribute.interim.maybe_merge_call(
    apply_each,
    tf.distribute.get_strategy(),
    gradients,
    tf.cast(learning_rate, tf.float32),
    tf.pow(optimizer.beta_1, count),
    tf.pow(optimizer.beta_2, count),
  )
