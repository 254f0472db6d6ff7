"""Loss, train_op, metrics and predictions of a classifier, made from its logits."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

import trainer
from trainer import errors

# What a network learns from its outputs, [b, classes]: the functions `spec` of this module, of
# `multi_label` and of `regression`. All three have the same arguments.
Task = Callable[..., trainer.EstimatorSpec]


def spec(
  mode: str,
  logits: tf.Tensor,
  labels: tf.Tensor | None,
  optimizer: Callable[[], Any],
  label_smoothing: float = 0.0,
  penalties: Sequence[tf.Tensor] = (),
  sample_weight: tf.Tensor | None = None,
) -> trainer.EstimatorSpec:
  """Makes the EstimatorSpec of a classifier.

  Args:
    mode: one of trainer.ModeKeys.
    logits: float [b, ..., classes]. The loss is float32 at any precision of the network.
    labels: int [b, ...]; in training also probabilities of the classes, float [b, ..., classes], as
      `augment.mix` makes them; None to predict.
    optimizer: makes the optimizer, such as its class.
    label_smoothing: in [0, 1), the share of a label to spread evenly over the classes, in training
      only. C. Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2016).
    penalties: scalars to add to the loss in training, such as `model.losses`.
    sample_weight: weights of the examples, [b], or of their labels; None for 1. The loss is the sum
      of weight × cross-entropy over the number of labels, not over the sum of the weights: Keras's
      "sum_over_batch_size".

  Returns:
    Its predictions are "class" (int32 [b, ...]), "probabilities" and "logits" (float32 [b, ...,
    classes]). Its metrics are "accuracy" and, with weights, "weighted_accuracy", the weighted mean
    over examples.

  Raises:
    SettingError: label_smoothing is out of range.
    ModelFnError: float labels are no probabilities of these classes.
  """
  if not 0 <= label_smoothing < 1:
    raise errors.SettingError(
      "label_smoothing must be at least 0 and less than 1; got "
      f"{label_smoothing} (gin: model_fn.label_smoothing)."
    )
  logits = tf.cast(logits, tf.float32)
  if mode == trainer.ModeKeys.PREDICT:
    predictions = {
      "class": tf.argmax(logits, -1, tf.int32),
      "probabilities": tf.nn.softmax(logits),
      "logits": logits,
    }
    return trainer.EstimatorSpec(mode, predictions=predictions)
  # Evaluation has neither smoothing nor penalties, so losses of different recipes are comparable.
  if mode == trainer.ModeKeys.EVAL:
    tensors = {"labels": labels, "logits": logits}
    if sample_weight is not None:
      tensors["sample_weight"] = sample_weight
    loss = weighted_mean(_smoothed_cross_entropy(labels, logits, 0.0), sample_weight)
    return trainer.EstimatorSpec(mode, loss=loss, eval_metrics=(metric_fn, tensors))
  loss = weighted_mean(_smoothed_cross_entropy(labels, logits, label_smoothing), sample_weight)
  for penalty in penalties:
    loss += tf.cast(penalty, tf.float32)
  return trainer.EstimatorSpec(mode, loss=loss, train_op=trainer.minimize(optimizer(), loss))


def weighted_mean(losses: tf.Tensor, sample_weight: tf.Tensor | None) -> tf.Tensor:
  """Returns the mean of weight × loss over all losses ("sum_over_batch_size").

  Args:
    losses: [b, ...].
    sample_weight: [b], or with more of the axes of the losses; None for 1.
  """
  if sample_weight is None:
    return tf.reduce_mean(losses)
  return tf.reduce_mean(losses * _like(sample_weight, losses))


def metric_fn(
  labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor | None = None
) -> dict[str, keras.metrics.Metric]:
  """Returns {"accuracy": ...}, over all labels of all examples, and "weighted_accuracy"."""
  accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
  accuracy.update_state(labels, logits)
  if sample_weight is None:
    return {"accuracy": accuracy}
  weighted = keras.metrics.SparseCategoricalAccuracy(name="weighted_accuracy")
  weighted.update_state(labels, logits, _like(sample_weight, labels))
  return {"accuracy": accuracy, "weighted_accuracy": weighted}


def _like(weights, values):
  """Returns the weights with an axis, and a place on it, for each of the values."""
  weights = tf.reshape(
    weights, tf.concat([tf.shape(weights), [1] * (values.shape.rank - weights.shape.rank)], 0)
  )
  return tf.broadcast_to(weights, tf.shape(values))


def _smoothed_cross_entropy(labels, logits, smoothing):
  classes = logits.shape.as_list()[-1]
  if labels.dtype.is_floating:
    if not labels.shape.is_compatible_with(logits.shape):
      raise errors.ModelFnError(
        f"The labels are {labels.dtype.name} {labels.shape} and the logits {logits.shape}: "
        "expected int labels, or a probability of each class. Is augment.mix.classes their number?"
      )
    probabilities = tf.cast(labels, tf.float32) * (1 - smoothing) + smoothing / classes
  elif not smoothing:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  else:
    even = smoothing / classes
    probabilities = tf.one_hot(labels, classes, on_value=1 - smoothing + even, off_value=even)
  return tf.nn.softmax_cross_entropy_with_logits(probabilities, logits)
