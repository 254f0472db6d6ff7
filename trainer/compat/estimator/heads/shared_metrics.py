"""Metrics of several heads."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import metrics

# The summation_method of tf.metrics.auc for the precision-recall curve: for canned estimators, and
# for heads of programs, whose metrics 2.15 took from Keras.
CANNED_SUMMATION = "trapezoidal"
SUMMATION = "careful_interpolation"


def areas(
  labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor | None, summation: str = SUMMATION
) -> dict[str, Any]:
  """Returns the areas under the ROC curve and under the precision-recall curve.

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
  """Returns accuracy, precision and recall with a positive class above each threshold."""
  found = {}
  for one in thresholds:
    above = tf.cast(predictions > one, tf.int64)
    for name in ("accuracy", "precision", "recall"):
      made = getattr(metrics, name)(labels, above, weights)
      found[f"{name}/positive_threshold_{one:g}"] = made
  return found


def checked_thresholds(thresholds: Sequence[float] | None) -> tuple[float, ...]:
  """Returns the thresholds after a check.

  Raises:
    ValueError: a threshold is 0, 1 or no probability.
  """
  for threshold in thresholds or ():
    if not 0 < threshold < 1:
      raise ValueError(f"thresholds must be in (0, 1) exclusive. Given: {threshold}.")
  return tuple(thresholds or ())
