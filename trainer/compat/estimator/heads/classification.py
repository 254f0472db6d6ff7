"""Heads of classifiers."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.estimator import export
from trainer.compat.estimator.heads import shared_metrics
from trainer.compat.estimator.heads.base import MEAN, SUM, Head, classification_outputs
from trainer.compat.graph_mode import metrics

v1 = tf.compat.v1


class _Classification(Head):
  def __init__(self, dimension: int, classes: int, vocabulary: Sequence[str] | None, *of_head: Any):
    super().__init__(dimension, *of_head)
    self._classes = classes
    self._vocabulary = list(vocabulary) if vocabulary else None
    if vocabulary and len(vocabulary) != classes:
      raise ValueError(f"label_vocabulary has {len(vocabulary)} labels; expected {classes}.")

  def _ids(self, labels: tf.Tensor) -> tf.Tensor:
    if self._vocabulary is None:
      return tf.cast(labels, tf.int64)
    same = tf.equal(labels[..., tf.newaxis], tf.constant(self._vocabulary))
    return tf.argmax(tf.cast(same, tf.int32), -1)

  def _processed(self, labels: tf.Tensor) -> tf.Tensor:
    return self._ids(labels)

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
    return classification_outputs(predictions, predictions["all_classes"])


class BinaryClassHead(_Classification):
  """Two classes with one logit.

  Args:
    thresholds: thresholds of the probability; each has its own accuracy, precision and recall.
    others: see Head.
  """

  _summation = shared_metrics.SUMMATION

  def __init__(
    self,
    weight_column: str | None = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = MEAN,
    loss_fn: Callable | None = None,
    name: str | None = None,
  ):
    super().__init__(1, 2, label_vocabulary, weight_column, loss_reduction, loss_fn, name)
    self._thresholds = shared_metrics.checked_thresholds(thresholds)

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
    found = {
      "accuracy": metrics.accuracy(ids, classes, weights),
      "precision": metrics.precision(ids, classes, weights),
      "recall": metrics.recall(ids, classes, weights),
      "prediction/mean": metrics.mean(logistic, weights),
      "label/mean": metrics.mean(ids, weights),
      "accuracy_baseline": _accuracy_baseline(ids, weights),
    }
    found |= shared_metrics.areas(ids, logistic, weights, self._summation)
    return found | shared_metrics.at_thresholds(self._thresholds, ids, logistic, weights)


class CannedBinaryClassHead(BinaryClassHead):
  """A canned classifier's head, which integrates the precision-recall curve by another rule."""

  _summation = shared_metrics.CANNED_SUMMATION


@metrics.metric_pairs.deferrable
def _accuracy_baseline(labels: Any, weights: Any = None) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the accuracy of always predicting the more frequent class."""
  value, update = v1.metrics.mean(labels, weights)
  return tf.maximum(value, 1 - value), tf.maximum(update, 1 - update)


class MultiClassHead(_Classification):
  """More than two classes, with a logit for each.

  Args:
    n_classes: the number of classes.
    others: see Head.
  """

  def __init__(
    self,
    n_classes: int,
    weight_column: str | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = MEAN,
    loss_fn: Callable | None = None,
    name: str | None = None,
  ):
    if n_classes <= 2:
      raise ValueError(f"n_classes must be > 2: {n_classes}.")
    super().__init__(
      n_classes, n_classes, label_vocabulary, weight_column, loss_reduction, loss_fn, name
    )

  def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    ids = tf.squeeze(self._ids(labels), -1)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ids, logits=logits)
    return losses[:, tf.newaxis]

  def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    found = {"logits": logits, "probabilities": tf.nn.softmax(logits)}
    return self._with_classes(found, tf.argmax(logits, -1)[:, tf.newaxis])

  def metric_ops(self, labels, predictions, weights) -> dict[str, Any]:
    return {"accuracy": metrics.accuracy(self._ids(labels), predictions["class_ids"], weights)}


def classification(
  n_classes: int = 2,
  weight_column: str | None = None,
  label_vocabulary: Sequence[str] | None = None,
  loss_reduction: str = SUM,
  binary: type[BinaryClassHead] = CannedBinaryClassHead,
) -> Head:
  """Returns a canned classifier's head: the binary head for two classes."""
  if n_classes == 2:
    return binary(weight_column, None, label_vocabulary, loss_reduction)
  return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)
