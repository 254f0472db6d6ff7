"""The heads of regressions."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.estimator import export
from trainer.compat.estimator.heads.base import MEAN, Head
from trainer.compat.graph_mode import metrics


class RegressionHead(Head):
  """Numbers, with the mean squared error.

  Args:
    label_dimension: the number of values for each example.
    inverse_link_fn: function from logits to predictions; None: the logits themselves.
    others: see Head.
  """

  def __init__(
    self,
    label_dimension: int = 1,
    weight_column: str | None = None,
    loss_reduction: str = MEAN,
    loss_fn: Callable | None = None,
    inverse_link_fn: Callable[[tf.Tensor], tf.Tensor] | None = None,
    name: str | None = None,
  ):
    if label_dimension < 1:
      raise ValueError(f"Invalid label_dimension {label_dimension}.")
    super().__init__(label_dimension, weight_column, loss_reduction, loss_fn, name)
    self._inverse_link_fn = inverse_link_fn

  def losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.math.squared_difference(logits, tf.cast(labels, tf.float32))

  def _processed(self, labels: tf.Tensor) -> tf.Tensor:
    return tf.cast(labels, tf.float32)

  def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    if self._inverse_link_fn is None:
      return {"predictions": logits}
    return {"predictions": self._inverse_link_fn(logits), "logits": logits}

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
