"""tf.contrib.slim.learning without its session loops: train_ops for an Estimator."""

from typing import Any

import tensorflow as tf

from trainer.compat.contrib import train_ops


def create_train_op(
  total_loss: tf.Tensor,
  optimizer: Any,
  global_step: Any = 0,
  update_ops: Any = None,
  variables_to_train: Any = None,
  clip_gradient_norm: float = 0,
  summarize_gradients: bool = False,
  gate_gradients: int = tf.compat.v1.train.Optimizer.GATE_OP,
  aggregation_method: Any = None,
  colocate_gradients_with_ops: bool = False,
  gradient_multipliers: dict[Any, Any] | None = None,
  check_numerics: bool = True,
) -> tf.Tensor:
  """As contrib.training.create_train_op, with two ways to change gradients.

  Args:
    clip_gradient_norm: the largest norm of each gradient; 0: no limit.
    gradient_multipliers: variable, or its name → the factor of its gradient.
  """

  def transform(pairs: Any) -> Any:
    if gradient_multipliers:
      with tf.name_scope("multiply_grads"):
        pairs = train_ops.multiply_gradients(pairs, gradient_multipliers)
    if clip_gradient_norm > 0:
      with tf.name_scope("clip_grads"):
        pairs = train_ops.clip_gradient_norms(pairs, clip_gradient_norm)
    return pairs

  return train_ops.create_train_op(
    total_loss,
    optimizer,
    global_step,
    update_ops,
    variables_to_train,
    transform,
    summarize_gradients,
    gate_gradients,
    aggregation_method,
    colocate_gradients_with_ops,
    check_numerics,
  )
