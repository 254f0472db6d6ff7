"""Heads of the canned estimators: from logits to a loss, metrics, predictions and signatures.

A loss is the sum over the examples of all cores, as the canned estimators of tf.compat.v1 have it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer import ModeKeys
from trainer.compat.v1 import metrics
from trainer.compat.v1.estimator import export
from trainer.compat.v1.estimator.specs import EstimatorSpec

v1 = tf.compat.v1


class Head:
  """What heads have in common.

  Args:
    dimension: of the logits.
    weight_column: the name of a feature with a weight for each example, or None.
  """

  def __init__(self, dimension: int, weight_column: str | None = None):
    self.logits_dimension = dimension
    self._weight_column = weight_column

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
    losses = self.losses(labels, logits)
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    # Gradients and losses of the replicas are averaged: of sums that is their sum again.
    loss = replicas * tf.reduce_sum(losses if weights is None else losses * weights)
    if mode == ModeKeys.TRAIN:
      loss += v1.losses.get_regularization_loss()
      return EstimatorSpec(mode, loss=loss, train_op=train_op_fn(loss), predictions=predictions)
    found = {"average_loss": metrics.mean(losses, weights)}
    return EstimatorSpec(
      mode,
      loss=loss,
      predictions=predictions,
      eval_metric_ops=found | self.metric_ops(labels, predictions, weights),
    )


def _as_column(tensor: Any) -> tf.Tensor:
  if isinstance(tensor, dict):
    (tensor,) = tensor.values()
  tensor = tf.convert_to_tensor(tensor)
  return tensor if tensor.shape.rank > 1 else tensor[:, tf.newaxis]


class _Classification(Head):
  def __init__(
    self, dimension: int, classes: int, weight_column: str | None, vocabulary: Sequence[str] | None
  ):
    super().__init__(dimension, weight_column)
    self._classes = classes
    self._vocabulary = list(vocabulary) if vocabulary else None
    if vocabulary and len(vocabulary) != classes:
      raise ValueError(f"label_vocabulary has {len(vocabulary)} labels; expected {classes}.")

  def _ids(self, labels: tf.Tensor) -> tf.Tensor:
    if self._vocabulary is None:
      return tf.cast(labels, tf.int64)
    same = tf.equal(labels[..., tf.newaxis], tf.constant(self._vocabulary))
    return tf.argmax(tf.cast(same, tf.int32), -1)

  def _names(self, ids: tf.Tensor) -> tf.Tensor:
    if self._vocabulary is None:
      return tf.strings.as_string(ids)
    return tf.gather(tf.constant(self._vocabulary), ids)

  def _with_classes(
    self, predictions: dict[str, tf.Tensor], ids: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    batch = tf.shape(ids)[0]
    every = tf.tile(tf.range(self._classes)[tf.newaxis], [batch, 1])
    return predictions | {
      "class_ids": ids,
      "classes": self._names(ids),
      "all_class_ids": every,
      "all_classes": self._names(every),
    }

  def outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, export.ExportOutput]:
    classification = export.ClassificationOutput(
      scores=predictions["probabilities"], classes=predictions["all_classes"]
    )
    return {
      "serving_default": classification,
      "classification": classification,
      "predict": export.PredictOutput(predictions),
    }


class BinaryHead(_Classification):
  """Two classes, by one logit."""

  def __init__(self, weight_column: str | None = None, vocabulary: Sequence[str] | None = None):
    super().__init__(1, 2, weight_column, vocabulary)

  def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    wanted = tf.cast(self._ids(labels), tf.float32)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits)

  def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    both = tf.concat([tf.zeros_like(logits), logits], -1)
    found = {"logits": logits, "logistic": tf.sigmoid(logits), "probabilities": tf.nn.softmax(both)}
    return self._with_classes(found, tf.argmax(both, -1)[:, tf.newaxis])

  def outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, export.ExportOutput]:
    regression = export.RegressionOutput(predictions["logistic"])
    return super().outputs(predictions) | {"regression": regression}

  def metric_ops(self, labels, predictions, weights) -> dict[str, Any]:
    ids = self._ids(labels)
    logistic, classes = predictions["logistic"], predictions["class_ids"]
    return {
      "accuracy": metrics.accuracy(ids, classes, weights),
      "precision": metrics.precision(ids, classes, weights),
      "recall": metrics.recall(ids, classes, weights),
      "prediction/mean": metrics.mean(logistic, weights),
      "label/mean": metrics.mean(ids, weights),
      "accuracy_baseline": _accuracy_baseline(ids, weights),
      "auc": metrics.auc(ids, logistic, weights),
      "auc_precision_recall": metrics.auc(ids, logistic, weights, curve="PR"),
    }


@metrics.metric_pairs.deferrable
def _accuracy_baseline(labels: Any, weights: Any = None) -> tuple[tf.Tensor, tf.Tensor]:
  """The accuracy of always saying the more frequent class."""
  value, update = v1.metrics.mean(labels, weights)
  return tf.maximum(value, 1 - value), tf.maximum(update, 1 - update)


class MultiClassHead(_Classification):
  """More than two classes, by a logit for each."""

  def __init__(
    self, classes: int, weight_column: str | None = None, vocabulary: Sequence[str] | None = None
  ):
    super().__init__(classes, classes, weight_column, vocabulary)

  def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    ids = tf.squeeze(self._ids(labels), -1)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ids, logits=logits)
    return losses[:, tf.newaxis]

  def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    found = {"logits": logits, "probabilities": tf.nn.softmax(logits)}
    return self._with_classes(found, tf.argmax(logits, -1)[:, tf.newaxis])

  def metric_ops(self, labels, predictions, weights) -> dict[str, Any]:
    return {"accuracy": metrics.accuracy(self._ids(labels), predictions["class_ids"], weights)}


class RegressionHead(Head):
  """Numbers, by mean squared error."""

  def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.math.squared_difference(logits, tf.cast(labels, tf.float32))

  def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"predictions": logits}

  def outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, export.ExportOutput]:
    regression = export.RegressionOutput(predictions["predictions"])
    return {
      "serving_default": regression,
      "regression": regression,
      "predict": export.PredictOutput(predictions),
    }

  def metric_ops(self, labels, predictions, weights) -> dict[str, Any]:
    return {
      "prediction/mean": metrics.mean(predictions["predictions"], weights),
      "label/mean": metrics.mean(tf.cast(labels, tf.float32), weights),
    }


def classification(
  n_classes: int, weight_column: str | None, vocabulary: Sequence[str] | None
) -> Head:
  """The head of so many classes."""
  if n_classes == 2:
    return BinaryHead(weight_column, vocabulary)
  return MultiClassHead(n_classes, weight_column, vocabulary)
