"""tf.contrib.opt: optimizers that extend optimizers of tf.train."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def _numbers(adam: v1.train.AdamOptimizer, var: tf.Variable) -> tuple[tf.Tensor, ...]:
  """Returns (beta1, beta2, this step's rate, epsilon) in a variable's dtype."""
  given = adam._beta1_t, adam._beta2_t, adam._lr_t, adam._epsilon_t, *adam._get_beta_accumulators()
  dtype = var.dtype.base_dtype
  beta1, beta2, rate, epsilon, power1, power2 = (tf.cast(one, dtype) for one in given)
  return beta1, beta2, rate * tf.sqrt(1 - power2) / (1 - power1), epsilon


class LazyAdamOptimizer(v1.train.AdamOptimizer):
  """Adam that updates only the rows that a sparse gradient has."""

  def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
    return self._resource_apply_sparse(grad.values, var, grad.indices)

  def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> Any:
    beta1, beta2, rate, epsilon = _numbers(self, var)
    m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
    m_rows = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
    v_rows = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
    step = rate * m_rows / (tf.sqrt(v_rows) + epsilon)
    return tf.group(
      m.scatter_update(tf.IndexedSlices(m_rows, indices)),
      v.scatter_update(tf.IndexedSlices(v_rows, indices)),
      var.scatter_sub(tf.IndexedSlices(step, indices)),
    )


class LARSOptimizer(v1.train.MomentumOptimizer):
  """Momentum with a rate for each layer, scaled by the norms of its weights and gradient.

  See https://arxiv.org/abs/1708.03888. Sparse gradients get plain momentum.

  Args:
    learning_rate: the rate before the scale.
    momentum: the share of the previous step.
    weight_decay: adds this times the weights to the gradient.
    eeta: the factor of the scale.
    epsilon: added to the scale's divisor.
    name: the name of the slots.
    skip_list: parts of names of variables without scale and decay.
    use_nesterov: whether the momentum is Nesterov's.
  """

  def __init__(
    self,
    learning_rate: Any,
    momentum: Any = 0.9,
    weight_decay: Any = 0.0001,
    eeta: Any = 0.001,
    epsilon: Any = 0.0,
    name: str = "LARSOptimizer",
    skip_list: Sequence[str] | None = None,
    use_nesterov: bool = False,
  ):
    if momentum < 0.0:
      raise ValueError(f"momentum should be positive: {momentum}")
    if weight_decay < 0.0:
      raise ValueError(f"weight_decay should be positive: {weight_decay}")
    super().__init__(learning_rate, momentum, name=name, use_nesterov=use_nesterov)
    self._weight_decay, self._eeta, self._epsilon = weight_decay, eeta, epsilon
    self._skip_list = list(skip_list or ())

  def compute_lr(self, grad: tf.Tensor, var: tf.Variable) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (a variable's rate, its gradient with the decay)."""
    rate = tf.cast(self._learning_rate_tensor, grad.dtype)
    if any(part in var.name for part in self._skip_list):
      return rate, grad
    of_weights, of_gradient = tf.norm(var), tf.norm(grad)
    divisor = of_gradient + self._weight_decay * of_weights + self._epsilon
    is_scaled = (of_weights > 0) & (of_gradient > 0)
    # The divisor of a variable without scale may be 0.
    scale = tf.where(is_scaled, self._eeta * of_weights / tf.where(is_scaled, divisor, 1.0), 1.0)
    return rate * scale, grad + self._weight_decay * var

  def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
    rate, grad = self.compute_lr(grad, var)
    return tf.raw_ops.ResourceApplyMomentum(
      var=var.handle,
      accum=self.get_slot(var, "momentum").handle,
      lr=rate,
      grad=grad,
      momentum=tf.cast(self._momentum_tensor, grad.dtype),
      use_nesterov=self._use_nesterov,
    )
