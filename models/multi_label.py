"""Loss, train_op, metrics and predictions of a model for examples with any number of classes.

cifar10_cnn.model_fn.task = @multi_label.spec
"""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import tensorflow as tf

import trainer
from trainer import errors

from .classification import weighted_mean

_PRESENT = 0.5  # the least probability of a predicted class


@gin.configurable
def spec(
  mode: str,
  logits: tf.Tensor,
  labels: tf.Tensor | None,
  optimizer: Callable[[], Any],
  label_smoothing: float = 0.0,
  penalties: Sequence[tf.Tensor] = (),
  sample_weight: tf.Tensor | None = None,
) -> trainer.EstimatorSpec:
  """Makes the EstimatorSpec of independent yes-or-no questions, one for each class.

  Args:
    mode: one of trainer.ModeKeys.
    logits: float [b, classes].
    labels: 0 or 1 [b, classes]; None to predict.
    optimizer: makes the optimizer, such as its class.
    label_smoothing: in [0, 1), in training only: 0 becomes label_smoothing / 2, and 1 becomes 1 -
      label_smoothing / 2.
    penalties: scalars to add to the loss in training, such as `model.losses`.
    sample_weight: weights of the examples, [b], or of their labels, [b, classes]; None for 1. See
      `classification.spec`.

  Returns:
    Its predictions are "present" (int32 [b, classes], 1 where the probability is at least a half)
    and "probabilities" (float32 [b, classes]). Its metrics are "binary_accuracy", the share of
    right answers, and "precision", "recall" and "auc" over the answers of all classes.

  Raises:
    SettingError: label_smoothing is out of range.
    ModelFnError: the labels do not fit the logits.
  """
  if not 0 <= label_smoothing < 1:
    raise errors.SettingError(
      "label_smoothing must be at least 0 and less than 1; got "
      f"{label_smoothing} (gin: model_fn.label_smoothing)."
    )
  logits = tf.cast(logits, tf.float32)
  probabilities = tf.sigmoid(logits)
  if mode == trainer.ModeKeys.PREDICT:
    present = tf.cast(probabilities >= _PRESENT, tf.int32)
    return trainer.EstimatorSpec(
      mode, predictions={"present": present, "probabilities": probabilities}
    )

  if labels is None or not labels.shape.is_compatible_with(logits.shape):
    raise errors.ModelFnError(
      f"The labels have the shape {None if labels is None else labels.shape}, and the logits "
      f"{logits.shape}: expected a 0 or 1 for each class (gin: model_fn.classes)."
    )
  wanted = tf.cast(labels, tf.float32)
  if mode == trainer.ModeKeys.EVAL:
    loss = _loss(wanted, logits, sample_weight)
    tensors = {"labels": labels, "probabilities": probabilities}
    return trainer.EstimatorSpec(mode, loss=loss, eval_metrics=(metric_fn, tensors))
  smoothed = wanted * (1 - label_smoothing) + label_smoothing / 2
  loss = _loss(smoothed, logits, sample_weight)
  for penalty in penalties:
    loss += tf.cast(penalty, tf.float32)
  return trainer.EstimatorSpec(mode, loss=loss, train_op=trainer.minimize(optimizer(), loss))


def _loss(wanted, logits, sample_weight):
  losses = tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits)
  return weighted_mean(losses, sample_weight)


def metric_fn(labels: tf.Tensor, probabilities: tf.Tensor) -> dict[str, keras.metrics.Metric]:
  """Returns the metrics that `spec` names."""
  found: dict[str, keras.metrics.Metric] = {
    "binary_accuracy": keras.metrics.BinaryAccuracy(threshold=_PRESENT),
    "precision": keras.metrics.Precision(thresholds=_PRESENT),
    "recall": keras.metrics.Recall(thresholds=_PRESENT),
    "auc": keras.metrics.AUC(),
  }
  for metric in found.values():
    metric.update_state(labels, probabilities)
  return found
