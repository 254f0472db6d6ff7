"""The common part of heads: the loss, and a mode's EstimatorSpec."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

import trainer
from trainer import ModeKeys
from trainer.compat.estimator import export
from trainer.compat.estimator.specs import EstimatorSpec
from trainer.compat.graph_mode import metrics

v1 = tf.compat.v1

SUM = v1.losses.Reduction.SUM
MEAN = v1.losses.Reduction.SUM_OVER_BATCH_SIZE

# TensorFlow 2's names in tf.losses.Reduction → tf.compat.v1's names.
_REDUCTIONS = {"sum": SUM, "sum_over_batch_size": MEAN, "auto": MEAN}


class Head:
  """The common part of heads.

  Args:
    dimension: the width of the logits.
    weight_column: the name of a feature with a weight for each example, or its numeric_column, or
      None.
    loss_reduction: one of tf.losses.Reduction: how the loss combines the examples' losses.
    loss_fn: function of labels and logits that returns the losses, instead of the head's own.
    name: the suffix of metric names, after a slash; None for none.

  Raises:
    ValueError: the reduction is unknown, or NONE.
  """

  def __init__(
    self,
    dimension: int,
    weight_column: Any = None,
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
    """Returns each example's loss, [batch, 1] or [batch, dimension]."""
    raise NotImplementedError

  def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the predictions by name."""
    raise NotImplementedError

  def outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, export.ExportOutput]:
    """Returns an export's signatures."""
    raise NotImplementedError

  def metric_ops(
    self, labels: tf.Tensor, predictions: dict[str, tf.Tensor], weights: tf.Tensor | None
  ) -> dict[str, Any]:
    """Returns the metrics besides average_loss."""
    raise NotImplementedError

  def column(self, labels: Any) -> Any:
    """Returns labels in the form for `losses` and `metric_ops`, [batch, ...]; None for None."""
    return _as_column(labels)

  def loss(
    self,
    labels: Any,
    logits: tf.Tensor,
    features: dict[str, tf.Tensor] | None = None,
    mode: str | None = None,
    regularization_losses: Sequence[tf.Tensor] | None = None,
  ) -> tf.Tensor:
    """Returns a batch's loss, a scalar, with the regularization losses."""
    del mode
    loss = self._reduced(self._losses(self.column(labels), logits), self._weights(features))
    return tf.add_n([loss, *(regularization_losses or ())])

  def metrics(
    self,
    labels: Any,
    logits: tf.Tensor,
    features: dict[str, tf.Tensor],
    regularization_losses: Sequence[tf.Tensor] | None = None,
  ) -> dict[str, Any]:
    # A mean over examples, weighted: independent of loss_reduction, so comparable between heads.
    """Returns a batch's eval_metric_ops."""
    labels, weights = self.column(labels), self._weights(features)
    found = {"average_loss": metrics.mean(self._losses(labels, logits), weights)}
    found |= self.metric_ops(labels, self.predictions(logits), weights)
    if regularization_losses:
      found["regularization_loss"] = metrics.mean(tf.add_n(regularization_losses))
    end = f"/{self.name}" if self.name else ""
    return {f"{key}{end}": pair for key, pair in found.items()}

  def create_estimator_spec(
    self,
    features: dict[str, tf.Tensor],
    mode: str,
    logits: Any,
    labels: Any = None,
    optimizer: Any = None,
    trainable_variables: Any = None,
    train_op_fn: Callable[[tf.Tensor], Any] | None = None,
    update_ops: Any = None,
    regularization_losses: Sequence[tf.Tensor] | None = None,
  ) -> EstimatorSpec:
    """Returns a mode's EstimatorSpec.

    Args:
      optimizer: an optimizer of tf.train or Keras.
      train_op_fn: function of the loss that returns the train_op, instead of an optimizer.
      regularization_losses: added to the loss, in training and in evaluation. Nothing else is
        added: the program must pass the losses that it wants from the collection
        REGULARIZATION_LOSSES.

    Raises:
      ValueError: a training has neither optimizer nor train_op_fn, or both.
    """
    if mode == ModeKeys.TRAIN and (optimizer is None) == (train_op_fn is None):
      raise ValueError("create_estimator_spec: give one of optimizer and train_op_fn.")
    predictions = self.predictions(logits)
    if mode == ModeKeys.PREDICT:
      return EstimatorSpec(mode, predictions=predictions, export_outputs=self.outputs(predictions))
    loss = self.loss(labels, logits, features, mode, regularization_losses)
    if mode == ModeKeys.EVAL:
      found = self.metrics(labels, logits, features, regularization_losses)
      return EstimatorSpec(mode, loss=loss, predictions=predictions, eval_metric_ops=found)
    if train_op_fn is not None:
      train_op = train_op_fn(loss)
    else:
      with tf.control_dependencies(update_ops or []):
        train_op = minimized(optimizer, loss, trainable_variables)
    return EstimatorSpec(mode, loss=loss, train_op=train_op, predictions=predictions)

  def _weights(self, features: dict[str, tf.Tensor] | None) -> tf.Tensor | None:
    if self._weight_column is None:
      return None
    column = self._weight_column
    if isinstance(column, str):
      column = tf.feature_column.numeric_column(column)
    weights = tf.cast(features[column.key], tf.float32)
    return _as_column(weights if column.normalizer_fn is None else column.normalizer_fn(weights))

  def weight(self, labels: Any, features: dict[str, tf.Tensor]) -> tf.Tensor:
    """Returns the sum of the weights of a batch's labels, a scalar."""
    ones = tf.ones(tf.shape(self.column(labels)))
    weights = self._weights(features)
    return tf.reduce_sum(ones if weights is None else ones * weights)

  def _losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    if self._loss_fn is None:
      return self.losses(labels, logits)
    return self._loss_fn(labels=self._processed(labels), logits=logits)

  def _processed(self, labels: tf.Tensor) -> tf.Tensor:
    """Returns the labels in the form for loss_fn."""
    return labels

  def _reduced(self, losses: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    if self._reduction != SUM:
      return v1.losses.compute_weighted_loss(
        losses, 1.0 if weights is None else weights, None, None, self._reduction
      )
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    # Octet averages gradients and losses over the replicas. Times their number, the mean is the
    # sum.
    return replicas * tf.reduce_sum(losses if weights is None else losses * weights)


def classification_outputs(
  predictions: dict[str, tf.Tensor], classes: tf.Tensor
) -> dict[str, export.ExportOutput]:
  """Returns a classifier's signatures.

  Args:
    classes: the names of all classes, [batch, classes].
  """
  found = export.ClassificationOutput(scores=predictions["probabilities"], classes=classes)
  return {
    "serving_default": found,
    "classification": found,
    "predict": export.PredictOutput(predictions),
  }


def minimized(optimizer: Any, loss: tf.Tensor, variables: Any = None) -> Any:
  """Returns the train_op of an optimizer of tf.train or Keras; of all variables by default."""
  if hasattr(optimizer, "get_updates"):  # the test of 2.15's heads
    # Slots of Keras 2's optimizers begin with `training`, outside of the model's scopes.
    with tf.name_scope(""), tf.name_scope("training"):
      given = v1.trainable_variables() if variables is None else variables
      return optimizer.get_updates(loss, given)[0]
  if isinstance(optimizer, keras.optimizers.Optimizer):
    return trainer.minimize(optimizer, loss, var_list=variables)
  # Only optimizers of tf.train count the global step.
  return optimizer.minimize(loss, v1.train.get_global_step(), variables)


def _as_column(tensor: Any) -> tf.Tensor:
  # A head with one label may get it in a dict, under any key.
  if isinstance(tensor, dict):
    (tensor,) = tensor.values()
  tensor = tf.convert_to_tensor(tensor)
  return tensor if tensor.shape.rank > 1 else tensor[:, tf.newaxis]
