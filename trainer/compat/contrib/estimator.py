"""tf.contrib.estimator: additions to Estimators."""

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


class _ClippingOptimizer(v1.train.Optimizer):
  """An optimizer that clips its gradients by their global norm."""

  def __init__(self, optimizer: Any, clip_norm: float):
    super().__init__(False, f"Clip{optimizer.get_name()}")
    self._optimizer, self._clip_norm = optimizer, clip_norm

  def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
    return self._optimizer.compute_gradients(*args, **kwargs)

  def apply_gradients(
    self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
  ) -> Any:
    pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
    gradients, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], self._clip_norm)
    clipped = [
      (gradient, variable) for gradient, (_, variable) in zip(gradients, pairs, strict=True)
    ]
    return self._optimizer.apply_gradients(clipped, global_step, name)

  def get_slot(self, *args: Any, **kwargs: Any) -> Any:
    return self._optimizer.get_slot(*args, **kwargs)

  def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
    return self._optimizer.get_slot_names(*args, **kwargs)

  def variables(self) -> list[tf.Variable]:
    return self._optimizer.variables()


def clip_gradients_by_norm(optimizer: Any, clip_norm: float) -> v1.train.Optimizer:
  """Returns an optimizer that clips another optimizer's gradients by their global norm."""
  return _ClippingOptimizer(optimizer, clip_norm)
