"""Loss, train_op, metrics and predictions of a model that predicts numbers.

tabular_mlp.model_fn.task = @regression.spec
tabular_mlp.model_fn.classes = 1                                     # how many numbers
regression.spec.statistics = @tabular.target_statistics()            # of the training set
"""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from .classification import weighted_mean


@gin.configurable
def spec(
  mode: str,
  logits: tf.Tensor,
  labels: tf.Tensor | None,
  optimizer: Callable[[], Any],
  label_smoothing: float = 0.0,
  penalties: Sequence[tf.Tensor] = (),
  sample_weight: tf.Tensor | None = None,
  statistics: tuple[Sequence[float], Sequence[float]] = ((0.0,), (1.0,)),
) -> trainer.EstimatorSpec:
  """Makes the EstimatorSpec of a regression. Its loss is the mean squared error.

  The network predicts normalised targets, and the loss compares these: a network starts with
  outputs around 0, and would take long to reach prices of 200,000. Predictions and metrics have the
  unit of the labels.

  Args:
    mode: one of trainer.ModeKeys.
    logits: float [b, n], the network's outputs, one for each target.
    labels: numbers [b, n], or [b] of one target; None to predict.
    optimizer: makes the optimizer, such as its class.
    label_smoothing: must be 0; other tasks smooth classes.
    penalties: scalars to add to the loss in training, such as `model.losses`.
    sample_weight: weights of the examples, [b]; None for 1. See `classification.spec`.
    statistics: (means, standard deviations) of the targets, such as `tabular.target_statistics`.

  Returns:
    Its prediction is "value", float32 [b] of one target, else [b, n]. Its metrics are
    "mean_absolute_error", "root_mean_squared_error" and, with weights,
    "weighted_mean_absolute_error".

  Raises:
    SettingError: label_smoothing is not 0, or the statistics have another number of targets.
    ModelFnError: the labels do not fit the outputs.
  """
  if label_smoothing:
    raise errors.SettingError(
      f"label_smoothing is {label_smoothing}, and a regression has no classes to smooth: set "
      "model_fn.label_smoothing = 0.0."
    )
  targets = logits.shape[-1]
  if any(len(values) != targets for values in statistics):
    raise errors.SettingError(
      f"regression.spec.statistics are of {len(statistics[0])} targets, and the model has "
      f"{targets} outputs (gin: model_fn.classes)."
    )
  means, deviations = (np.asarray(values, np.float32) for values in statistics)
  normalised = tf.cast(logits, tf.float32)
  values = normalised * deviations + means
  if targets == 1:
    values = values[:, 0]
  if mode == trainer.ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions={"value": values})

  if labels is None or not labels.shape.is_compatible_with(values.shape):
    raise errors.ModelFnError(
      f"The labels have the shape {None if labels is None else labels.shape}, and the model "
      f"predicts {values.shape}: expected a number for each output (gin: model_fn.classes)."
    )
  labels = tf.cast(labels, tf.float32)
  wanted = (tf.reshape(labels, tf.shape(normalised)) - means) / deviations
  loss = weighted_mean(tf.square(normalised - wanted), sample_weight)
  if mode == trainer.ModeKeys.EVAL:
    tensors = {"labels": labels, "values": values}
    if sample_weight is not None:
      tensors["sample_weight"] = sample_weight
    return trainer.EstimatorSpec(mode, loss=loss, eval_metrics=(metric_fn, tensors))
  for penalty in penalties:
    loss += tf.cast(penalty, tf.float32)
  return trainer.EstimatorSpec(mode, loss=loss, train_op=trainer.minimize(optimizer(), loss))


def metric_fn(
  labels: tf.Tensor, values: tf.Tensor, sample_weight: tf.Tensor | None = None
) -> dict[str, keras.metrics.Metric]:
  """Returns the metrics that `spec` names."""
  found: dict[str, keras.metrics.Metric] = {
    "mean_absolute_error": keras.metrics.MeanAbsoluteError(),
    "root_mean_squared_error": keras.metrics.RootMeanSquaredError(),
  }
  # Keras takes the mean over the last axis. A single target's last axis would be the examples.
  labels, values = (tf.reshape(each, [tf.shape(labels)[0], -1]) for each in (labels, values))
  for metric in found.values():
    metric.update_state(labels, values)
  if sample_weight is not None:
    found["weighted_mean_absolute_error"] = weighted = keras.metrics.MeanAbsoluteError()
    weighted.update_state(labels, values, sample_weight)
  return found
