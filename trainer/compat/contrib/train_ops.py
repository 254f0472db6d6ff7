"""create_train_op of tf.contrib.training and slim.learning, and transformations of gradients."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from trainer.compat.graph_mode import summary
from trainer.compat.layers.contrib import optimize_loss

v1 = tf.compat.v1

_Pairs = list[tuple[Any, tf.Variable]]  # (gradient or None, variable)

# The default of global_step. None has its own meaning: no variable counts the steps.
_USE_GLOBAL_STEP = 0


def create_train_op(
  total_loss: tf.Tensor,
  optimizer: Any,
  global_step: Any = _USE_GLOBAL_STEP,
  update_ops: Iterable[Any] | None = None,
  variables_to_train: Sequence[tf.Variable] | None = None,
  transform_grads_fn: Callable[[_Pairs], _Pairs] | None = None,
  summarize_gradients: bool = False,
  gate_gradients: int = v1.train.Optimizer.GATE_OP,
  aggregation_method: Any = None,
  colocate_gradients_with_ops: bool = False,
  check_numerics: bool = True,
) -> tf.Tensor:
  """Returns a train_op: the loss, after the update of the variables.

  Args:
    total_loss: a scalar.
    optimizer: a tf.train.Optimizer.
    global_step: the variable that counts the steps; None for none.
    update_ops: operations that run before the loss; None for UPDATE_OPS.
    variables_to_train: None for all trainable variables.
    transform_grads_fn: function of [(gradient, variable)] that returns such a list.
    summarize_gradients: whether to write the norms of gradients as summaries.
    gate_gradients: see Optimizer.compute_gradients, as for the next two.
    check_numerics: whether a non-finite loss raises an error.

  Raises:
    ValueError: no variable is trainable.
  """
  if global_step is _USE_GLOBAL_STEP:
    global_step = v1.train.get_or_create_global_step()
  collected = list(v1.get_collection(v1.GraphKeys.UPDATE_OPS))
  updates = collected if update_ops is None else list(update_ops)
  if any(all(one is not other for other in updates) for one in collected):
    logging.warning("create_train_op: update_ops has not all operations of UPDATE_OPS.")
  with tf.control_dependencies(updates):
    total_loss = tf.identity(total_loss)
  variables = variables_to_train or v1.trainable_variables()
  if not variables:
    raise ValueError("create_train_op: there is no trainable variable.")
  pairs = optimizer.compute_gradients(
    total_loss,
    variables,
    gate_gradients=gate_gradients,
    aggregation_method=aggregation_method,
    colocate_gradients_with_ops=colocate_gradients_with_ops,
  )
  if transform_grads_fn is not None:
    pairs = transform_grads_fn(pairs)
  if summarize_gradients:
    with tf.name_scope("summarize_grads"):
      add_gradients_summaries(pairs)
  applied = optimizer.apply_gradients(pairs, global_step=global_step)
  with tf.name_scope("train_op"):
    if check_numerics:
      total_loss = tf.debugging.check_numerics(total_loss, "LossTensor is inf or nan")
    with tf.control_dependencies([applied]):
      train_op = tf.identity(total_loss)
  v1.add_to_collection(v1.GraphKeys.TRAIN_OP, train_op)
  return train_op


def multiply_gradients(grads_and_vars: _Pairs, gradient_multipliers: dict[Any, Any]) -> _Pairs:
  """Multiplies gradients.

  Args:
    gradient_multipliers: variable, or its name → a number or tensor.

  Raises:
    ValueError: gradient_multipliers is no dict, is empty, or has a variable without a gradient.
  """
  if not isinstance(gradient_multipliers, dict) or not gradient_multipliers:
    raise ValueError(f"gradient_multipliers must be a dict with entries: {gradient_multipliers!r}.")
  factors = {
    (key if isinstance(key, str) else key.name).partition(":")[0]: value
    for key, value in gradient_multipliers.items()
  }
  found = []
  for gradient, variable in grads_and_vars:
    factor = factors.get(variable.name.partition(":")[0])
    if factor is not None and gradient is None:
      raise ValueError(f"multiply_gradients: {variable.name} has no gradient to multiply.")
    found.append((optimize_loss.scaled(gradient, factor), variable))
  return found


def clip_gradient_norms(gradients_to_variables: _Pairs, max_norm: Any) -> _Pairs:
  """Clips each gradient to a norm."""

  def clipped(values: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_norm(values, max_norm)

  return [(optimize_loss.changed(grad, clipped), one) for grad, one in gradients_to_variables]


def clip_gradient_norms_fn(max_norm: Any) -> Callable[[_Pairs], _Pairs]:
  """Returns a transform_grads_fn that clips each gradient to a norm."""
  return lambda pairs: clip_gradient_norms(pairs, max_norm)


def add_gradients_summaries(grads_and_vars: _Pairs) -> None:
  """Writes the norms of gradients as scalars."""
  for gradient, variable in grads_and_vars:
    if gradient is None:
      logging.info("Var %s has no gradient", variable.name)
      continue
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    name = variable.name.partition(":")[0]
    v1.summary.histogram(f"{name}_gradient", values)
    summary.scalar(f"{name}_gradient_norm", tf.linalg.global_norm([values]))
