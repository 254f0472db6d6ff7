"""What heads have in common: the loss, and the EstimatorSpec of a mode."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer import ModeKeys
from trainer.compat.v1 import metrics
from trainer.compat.v1.estimator import export
from trainer.compat.v1.estimator.specs import EstimatorSpec

v1 = tf.compat.v1

SUM = v1.losses.Reduction.SUM
MEAN = v1.losses.Reduction.SUM_OVER_BATCH_SIZE

# The names of tf.losses.Reduction, of TensorFlow 2, for those of tf.compat.v1.
_REDUCTIONS = {"sum": SUM, "sum_over_batch_size": MEAN, "auto": MEAN}


class Head:
  """What heads have in common.

  Args:
    dimension: of the logits.
    weight_column: the name of a feature with a weight for each example, or None.
    loss_reduction: one of tf.losses.Reduction: what of the losses of examples the loss is.
    loss_fn: function of labels and logits that gives the losses in the place of the head's own.
    name: what names of metrics end in, after a slash; None for nothing.

  Raises:
    ValueError: there is no such reduction, or it is NONE.
  """

  def __init__(
    self,
    dimension: int,
    weight_column: str | None = None,
    loss_reduction: str = MEAN,
    loss_fn: Callable | None = None,
    name: str | None = None,
  ):
    self.logits_dimension = dimension
    self.loss_reduction = loss_reduction
    self.name = name
    self._weight_column = weight_column
    self._loss_fn = loss_fn
    self._reduction = _REDUCTIONS.get(loss_reduction, loss_reduction)
    known = v1.losses.Reduction
    if self._reduction not in known.all() or self._reduction == known.NONE:
      raise ValueError(f"Invalid loss_reduction: {loss_reduction!r}; see tf.losses.Reduction.")

  def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The loss of each example, [batch, 1] or [batch, dimension]."""
    raise NotImplementedError

  def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """What is predicted, by name."""
    raise NotImplementedError

  def outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, export.ExportOutput]:
    """The signatures of an export."""
    raise NotImplementedError

  def metric_ops(
    self, labels: tf.Tensor, predictions: dict[str, tf.Tensor], weights: tf.Tensor | None
  ) -> dict[str, Any]:
    """Metrics beside average_loss."""
    raise NotImplementedError

  def spec(
    self,
    features: dict[str, tf.Tensor],
    mode: str,
    logits: tf.Tensor,
    labels: Any,
    train_op_fn: Callable[[tf.Tensor], Any],
  ) -> EstimatorSpec:
    """The EstimatorSpec of a mode."""
    predictions = self.predictions(logits)
    if mode == ModeKeys.PREDICT:
      return EstimatorSpec(mode, predictions=predictions, export_outputs=self.outputs(predictions))
    labels = _as_column(labels)
    weights = None
    if self._weight_column is not None:
      weights = _as_column(tf.cast(features[self._weight_column], tf.float32))
    losses = self._losses(labels, logits)
    loss = self._reduced(losses, weights)
    if mode == ModeKeys.TRAIN:
      loss += v1.losses.get_regularization_loss()
      return EstimatorSpec(mode, loss=loss, train_op=train_op_fn(loss), predictions=predictions)
    found = {"average_loss": metrics.mean(losses, weights)}
    found |= self.metric_ops(labels, predictions, weights)
    end = f"/{self.name}" if self.name else ""
    return EstimatorSpec(
      mode,
      loss=loss,
      predictions=predictions,
      eval_metric_ops={f"{key}{end}": pair for key, pair in found.items()},
    )

  def create_estimator_spec(
    self,
    features: dict[str, tf.Tensor],
    mode: str,
    logits: tf.Tensor,
    labels: Any = None,
    optimizer: Any = None,
    trainable_variables: Any = None,
    train_op_fn: Callable[[tf.Tensor], Any] | None = None,
    update_ops: Any = None,
    regularization_losses: Any = None,
  ) -> EstimatorSpec:
    """The EstimatorSpec of a mode, for a model_fn of a program.

    Raises:
      ValueError: it is for a training, and not one of optimizer and train_op_fn is given.
    """
    if mode == ModeKeys.TRAIN and (optimizer is None) == (train_op_fn is None):
      raise ValueError("create_estimator_spec: give one of optimizer and train_op_fn.")

    def train_op(loss: tf.Tensor) -> Any:
      loss = tf.add_n([loss, *(regularization_losses or [])])
      if train_op_fn is not None:
        return train_op_fn(loss)
      with tf.control_dependencies(update_ops or []):
        return optimizer.minimize(loss, v1.train.get_global_step(), trainable_variables)

    return self.spec(features, mode, logits, labels, train_op)

  def _losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    if self._loss_fn is None:
      return self.losses(labels, logits)
    return self._loss_fn(labels=self._processed(labels), logits=logits)

  def _processed(self, labels: tf.Tensor) -> tf.Tensor:
    """The labels as a loss_fn gets them."""
    return labels

  def _reduced(self, losses: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    if self._reduction != SUM:
      return v1.losses.compute_weighted_loss(
        losses, 1.0 if weights is None else weights, None, None, self._reduction
      )
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    # Gradients and losses of the replicas are averaged: of sums that is their sum again.
    return replicas * tf.reduce_sum(losses if weights is None else losses * weights)


def _as_column(tensor: Any) -> tf.Tensor:
  if isinstance(tensor, dict):
    (tensor,) = tensor.values()
  tensor = tf.convert_to_tensor(tensor)
  return tensor if tensor.shape.rank > 1 else tensor[:, tf.newaxis]
