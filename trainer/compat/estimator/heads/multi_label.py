"""The head for examples with any number of classes."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.estimator import export
from trainer.compat.estimator.heads import shared_metrics
from trainer.compat.estimator.heads.base import MEAN, Head, classification_outputs
from trainer.compat.graph_mode import metrics


class MultiLabelHead(Head):
  """Classes that may occur together, with a logit for each.

  Labels are [batch, n_classes] of 0 and 1, or a SparseTensor of class ids, or of names in
  label_vocabulary. The loss of an example is the mean over the classes.

  Args:
    n_classes: the number of classes.
    thresholds: thresholds of the probability; each has its own accuracy, precision and recall.
    classes_for_class_based_metrics: classes with their own metrics: ids, or names in
      label_vocabulary.
    others: see Head.

  Raises:
    ValueError: there are fewer than two classes, or an argument does not fit them.
  """

  def __init__(
    self,
    n_classes: int,
    weight_column: str | None = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = MEAN,
    loss_fn: Callable | None = None,
    classes_for_class_based_metrics: Sequence[int | str] | None = None,
    name: str | None = None,
  ):
    if n_classes is None or n_classes < 2:
      raise ValueError(f"n_classes must be > 1 for multi-label classification. Given: {n_classes}.")
    if label_vocabulary and len(label_vocabulary) != n_classes:
      raise ValueError(
        f"label_vocabulary has {len(label_vocabulary)} labels; expected {n_classes}."
      )
    super().__init__(n_classes, weight_column, loss_reduction, loss_fn, name)
    self._thresholds = shared_metrics.checked_thresholds(thresholds)
    self._vocabulary = list(label_vocabulary or [])
    self._own_metrics = [self._id(one) for one in classes_for_class_based_metrics or ()]

  def _id(self, one: int | str) -> int:
    known: Sequence[int | str] = range(self.logits_dimension)
    if isinstance(one, str):
      known = self._vocabulary
    if one not in known:
      raise ValueError(
        f"classes_for_class_based_metrics has {one!r}; expected some of {list(known)}."
      )
    return known.index(one)

  def column(self, labels: Any) -> tf.Tensor:
    """Returns [batch, n_classes] of 0 and 1, int64."""
    if not isinstance(labels, tf.SparseTensor):
      return tf.cast(super().column(labels), tf.int64)
    if labels.dtype == tf.string:
      same = tf.equal(labels.values[:, tf.newaxis], tf.constant(self._vocabulary))
      labels = labels.with_values(tf.argmax(tf.cast(same, tf.int32), -1))
    return tf.cast(tf.sparse.to_indicator(labels, self.logits_dimension), tf.int64)

  def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    labels = tf.cast(labels, tf.float32)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses, -1, keepdims=True)

  def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    names = self._vocabulary or [str(one) for one in range(self.logits_dimension)]
    classes = tf.tile(tf.constant(names)[tf.newaxis], [tf.shape(logits)[0], 1])
    return {"logits": logits, "probabilities": tf.sigmoid(logits), "classes": classes}

  def outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, export.ExportOutput]:
    return classification_outputs(predictions, predictions["classes"])

  def metric_ops(self, labels, predictions, weights) -> dict[str, Any]:
    probabilities = predictions["probabilities"]
    found = shared_metrics.areas(labels, probabilities, weights)
    found |= shared_metrics.at_thresholds(self._thresholds, labels, probabilities, weights)
    for one in self._own_metrics:
      end = self._vocabulary[one] if self._vocabulary else f"class{one}"
      of_class = probabilities[:, one : one + 1]
      found[f"probability_mean/{end}"] = metrics.mean(of_class, weights)
      own = shared_metrics.areas(labels[:, one : one + 1], of_class, weights)
      found |= {f"{key}/{end}": pair for key, pair in own.items()}
    return found
