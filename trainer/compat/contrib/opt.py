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


class NadamOptimizer(v1.train.AdamOptimizer):
  """Adam with Nesterov's momentum: http://cs229.stanford.edu/proj2015/054_report.pdf."""

  def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
    power1, power2 = (tf.cast(one, grad.dtype) for one in self._get_beta_accumulators())
    return tf.raw_ops.ResourceApplyAdam(
      var=var.handle,
      m=self.get_slot(var, "m").handle,
      v=self.get_slot(var, "v").handle,
      beta1_power=power1,
      beta2_power=power2,
      lr=tf.cast(self._lr_t, grad.dtype),
      beta1=tf.cast(self._beta1_t, grad.dtype),
      beta2=tf.cast(self._beta2_t, grad.dtype),
      epsilon=tf.cast(self._epsilon_t, grad.dtype),
      grad=grad,
      use_nesterov=True,
    )

  def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> Any:
    """Moves only the gradient's rows, and decays the moments of all."""
    beta1, beta2, rate, epsilon = _numbers(self, var)
    rows, changes = [], []
    for name, beta, values in (("m", beta1, grad), ("v", beta2, tf.square(grad))):
      slot = self.get_slot(var, name)
      kept = beta * slot.read_value()
      new = tf.tensor_scatter_nd_add(kept, indices[:, tf.newaxis], (1 - beta) * values)
      rows.append(tf.gather(new, indices))
      changes.append(slot.assign(new))
    step = rate * ((1 - beta1) * grad + beta1 * rows[0]) / (tf.sqrt(rows[1]) + epsilon)
    return tf.group(var.scatter_sub(tf.IndexedSlices(step, indices)), *changes)


class DecoupledWeightDecayExtension:
  """Adds decoupled weight decay: a variable loses `weight_decay` of itself before each update.

  With a sparse gradient, only the gradient's rows decay.

  Args:
    weight_decay: a number or a scalar tensor.
    args, kwargs: the optimizer's arguments.
  """

  def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any):
    self._decay_var_list: Any = None  # None: all
    super().__init__(*args, **kwargs)
    self._weight_decay = weight_decay

  def minimize(
    self, loss: Any, *args: Any, decay_var_list: Sequence[Any] | None = None, **kwargs: Any
  ) -> Any:
    """As an optimizer's minimize. decay_var_list: the variables to decay; None for all."""
    self._decay_var_list = decay_var_list
    return super().minimize(loss, *args, **kwargs)

  def apply_gradients(
    self, grads_and_vars: Any, *args: Any, decay_var_list: Any = None, **kwargs: Any
  ) -> Any:
    """See minimize."""
    if decay_var_list is not None:
      self._decay_var_list = decay_var_list
    return super().apply_gradients(grads_and_vars, *args, **kwargs)

  def _rate(self, var: tf.Variable) -> tf.Tensor | None:
    wanted = self._decay_var_list
    if wanted is not None and not any(one is var for one in wanted):
      return None
    return tf.cast(self._weight_decay, var.dtype.base_dtype)

  def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
    rate = self._rate(var)
    lost = [] if rate is None else [var.assign_sub(rate * var.read_value())]
    with tf.control_dependencies(lost):
      return super()._resource_apply_dense(grad, var)

  def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> Any:
    rate = self._rate(var)
    lost = []
    if rate is not None:
      rows = rate * tf.gather(var.read_value(), indices)
      lost = [var.scatter_sub(tf.IndexedSlices(rows, indices))]
    with tf.control_dependencies(lost):
      return super()._resource_apply_sparse(grad, var, indices)


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
  """Returns a class of optimizers, `OptimizerWithDecoupledWeightDecay(weight_decay, ...)`."""

  class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
    """An optimizer with decoupled weight decay."""

  return OptimizerWithDecoupledWeightDecay


class AdamWOptimizer(DecoupledWeightDecayExtension, v1.train.AdamOptimizer):
  """Adam with decoupled weight decay: AdamWOptimizer(weight_decay, learning_rate, ...)."""

  def __init__(
    self,
    weight_decay: Any,
    learning_rate: Any = 0.001,
    beta1: Any = 0.9,
    beta2: Any = 0.999,
    epsilon: Any = 1e-8,
    use_locking: bool = False,
    name: str = "AdamW",
  ):
    super().__init__(weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name)


class MomentumWOptimizer(DecoupledWeightDecayExtension, v1.train.MomentumOptimizer):
  """Momentum with decoupled weight decay: MomentumWOptimizer(weight_decay, learning_rate, ...)."""

  def __init__(
    self,
    weight_decay: Any,
    learning_rate: Any,
    momentum: Any,
    use_locking: bool = False,
    name: str = "MomentumW",
    use_nesterov: bool = False,
  ):
    super().__init__(weight_decay, learning_rate, momentum, use_locking, name, use_nesterov)


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
