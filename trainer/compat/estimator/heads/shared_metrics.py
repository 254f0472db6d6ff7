"""Metrics that several heads have."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import metrics

# The summation_method of tf.metrics.auc for the curve of precision and recall: that of canned
# estimators, and that of heads of programs, whose metrics 2.15 took from Keras.
CANNED_SUMMATION = "trapezoidal"
SUMMATION = "careful_interpolation"


def areas(
  labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor | None, summation: str = SUMMATION
) -> dict[str, Any]:
  """The areas under the ROC curve and under that of precision and recall.

  Args:
    summation: CANNED_SUMMATION or SUMMATION.
  """
  return {
    "auc": metrics.auc(labels, predictions, weights),
    "auc_precision_recall": metrics.auc(
      labels, predictions, weights, curve="PR", summation_method=summation
    ),
  }


def at_thresholds(
  thresholds: Sequence[float], labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor | None
) -> dict[str, Any]:
  """Accuracy, precision and recall where what is above a threshold is positive."""
  found = {}
  for one in thresholds:
    above = tf.cast(predictions > one, tf.int64)
    for name in ("accuracy", "precision", "recall"):
      made = getattr(metrics, name)(labels, above, weights)
      found[f"{name}/positive_threshold_{one:g}"] = made
  return found


def checked_thresholds(thresholds: Sequence[float] | None) -> tuple[float, ...]:
  """The thresholds.

  Raises:
    ValueError: one of them is no probability, or 0 or 1.
  """
  for threshold in thresholds or ():
    if not 0 < threshold < 1:
      raise ValueError(f"thresholds must be in (0, 1) exclusive. Given: {threshold}.")
  return tuple(thresholds or ())
