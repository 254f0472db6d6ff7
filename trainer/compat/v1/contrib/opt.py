"""tf.contrib.opt: optimizers that are one step from those of tf.train."""

from typing import Any

import tensorflow as tf

from trainer.compat.v1 import overlay

v1 = tf.compat.v1


class LazyAdamOptimizer(v1.train.AdamOptimizer):
  """Adam that moves only the rows of sparse gradients that are there."""

  def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> Any:
    return self._resource_apply_sparse(grad.values, var, grad.indices)

  def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> Any:
    beta1_power, beta2_power = self._get_beta_accumulators()
    dtype = var.dtype.base_dtype
    power1, power2 = tf.cast(beta1_power, dtype), tf.cast(beta2_power, dtype)
    beta1, beta2 = tf.cast(self._beta1_t, dtype), tf.cast(self._beta2_t, dtype)
    rate = tf.cast(self._lr_t, dtype) * tf.sqrt(1 - power2) / (1 - power1)
    m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
    m_rows = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
    v_rows = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
    step = rate * m_rows / (tf.sqrt(v_rows) + tf.cast(self._epsilon_t, dtype))
    return tf.group(
      m.scatter_update(tf.IndexedSlices(m_rows, indices)),
      v.scatter_update(tf.IndexedSlices(v_rows, indices)),
      var.scatter_sub(tf.IndexedSlices(step, indices)),
    )


class _DecoupledWeightDecay:
  """A variable loses `weight_decay` of itself before each of its updates."""

  def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any):
    super().__init__(*args, **kwargs)
    self._weight_decay = weight_decay

  def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
    rate = tf.cast(self._weight_decay, var.dtype.base_dtype)
    with tf.control_dependencies([var.assign_sub(rate * var.read_value())]):
      return super()._resource_apply_dense(grad, var)


class AdamWOptimizer(_DecoupledWeightDecay, v1.train.AdamOptimizer):
  """Adam with decoupled weight decay: AdamWOptimizer(weight_decay, learning_rate, ...)."""

  def __init__(self, weight_decay: Any, learning_rate: Any = 0.001, **kwargs: Any):
    kwargs.setdefault("name", "AdamW")
    super().__init__(weight_decay, learning_rate, **kwargs)


class MomentumWOptimizer(_DecoupledWeightDecay, v1.train.MomentumOptimizer):
  """Momentum with decoupled weight decay: MomentumWOptimizer(weight_decay, learning_rate, ...)."""

  def __init__(self, weight_decay: Any, learning_rate: Any, momentum: Any, **kwargs: Any):
    kwargs.setdefault("name", "MomentumW")
    super().__init__(weight_decay, learning_rate, momentum, **kwargs)


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
  """A class of optimizers, of tf.train, with decoupled weight decay for its first argument."""
  return type(f"{base_optimizer.__name__}W", (_DecoupledWeightDecay, base_optimizer), {})


__getattr__, __dir__ = overlay.behind(__name__)
