"""Optimizers of `tf.compat.v1` with an `apply_gradients` of their own, as published programs
have.
"""

import tensorflow as tf

v1 = tf.compat.v1


class _WithSlots(v1.train.Optimizer):
  """Makes each slot by get_variable, under the name of its variable."""

  def __init__(self, learning_rate):
    super().__init__(False, type(self).__name__)
    self.learning_rate = learning_rate

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    updates = []
    for gradient, variable in grads_and_vars:
      if gradient is not None:
        updates += self.updates(gradient, variable)
    return tf.group(*updates, name=name)

  def slot(self, variable, name):
    """A variable beside this one, zero at first."""
    return v1.get_variable(
      f"{variable.op.name}/{name}",
      variable.shape,
      initializer=v1.zeros_initializer(),
      trainable=False,
    )


class AdamWeightDecay(_WithSlots):
  """As BERT trains: Adam without correction of its first steps, and weight decay beside it."""

  def updates(self, gradient, variable):
    m, v = self.slot(variable, "adam_m"), self.slot(variable, "adam_v")
    next_m = 0.9 * m + 0.1 * gradient
    next_v = 0.999 * v + 0.001 * tf.square(gradient)
    step = next_m / (tf.sqrt(next_v) + 1e-6) + 0.01 * variable
    return [
      variable.assign(variable - self.learning_rate * step),
      m.assign(next_m),
      v.assign(next_v),
    ]


class Lars(_WithSlots):
  """As SimCLR trains: momentum, at a rate by the norms of each variable and its gradient."""

  def updates(self, gradient, variable):
    momentum = self.slot(variable, "Momentum")
    gradient += 1e-4 * variable
    of_variable, of_gradient = tf.norm(variable), tf.norm(gradient)
    trust = tf.where((of_variable > 0) & (of_gradient > 0), 0.1 * of_variable / of_gradient, 1.0)
    speed = 0.9 * momentum + self.learning_rate * trust * gradient
    return [variable.assign(variable - speed), momentum.assign(speed)]
