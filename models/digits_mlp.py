"""A small network that reads handwritten digits. Copy this file to start a model of your own.

A model is one function, `model_fn`. The framework calls it for each mode and each core of the
device, with the features and labels of a batch from the input_fn. The result is an EstimatorSpec
with the predictions, the loss, the train_op and the metrics. Write it as if there were one core.

    run.model_fn = @digits_mlp.model_fn        # in a gin file, after `import models.digits_mlp`
"""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import tensorflow as tf

import trainer


def network(
  images: tf.Tensor, training: bool, hidden_units: Sequence[int], dropout: float
) -> tf.Tensor:
  """Maps images (float32 [batch, height, width, channels]) to logits (float32 [batch, 10])."""
  x = keras.layers.Flatten()(images)
  for units in hidden_units:
    x = keras.layers.Dense(units, activation="relu")(x)
    # Dropout and batch norm do different things in training, so they must know the mode.
    x = keras.layers.Dropout(dropout)(x, training=training)
  # With --precision=bfloat16, the layers above compute in bfloat16. It has too few digits for the
  # loss, so the last layer always computes in float32.
  return keras.layers.Dense(10, dtype="float32")(x)


# A gin file can set every argument from the fifth on: `digits_mlp.model_fn.dropout = 0.5`.
@gin.configurable
def model_fn(
  features: dict[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  params: dict[str, Any],
  hidden_units: Sequence[int] = (128, 64),
  dropout: float = 0.2,
  optimizer: Callable[[], Any] = keras.optimizers.Adam,
  label_smoothing: float = 0.0,
  sample_weight: tf.Tensor | None = None,
) -> trainer.EstimatorSpec:
  """Classifies digits.

  Args:
    features: dict with "image", float32 [batch, 8, 8, 1] in 0..1.
    labels: int32 [batch] in 0..9; None when predicting.
    mode: one of trainer.ModeKeys: TRAIN, EVAL, PREDICT.
    params: `run.params` and "batch_size", the number of examples on this core (absent in export).
    hidden_units: sizes of the hidden layers.
    dropout: share of hidden units that a training step drops.
    optimizer: makes a Keras optimizer: a class; in gin `@keras.optimizers.Adam`.
    label_smoothing: share of each label to spread evenly over the classes.
    sample_weight: float32 [batch], see docs/other_tasks.md#weights-of-examples; or None.

  Returns:
    A trainer.EstimatorSpec.
  """
  # 1. The network. Each call makes the layers; the framework makes all calls share one set of
  #   variables.
  logits = network(features["image"], mode == trainer.ModeKeys.TRAIN, hidden_units, dropout)

  # 2. The predictions: tensors with shape [batch, ...].
  predictions = {
    "class": tf.argmax(logits, axis=-1, output_type=tf.int32),
    "probabilities": tf.nn.softmax(logits),
  }
  if mode == trainer.ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions=predictions)

  # 3. The loss: a scalar, the mean over the batch. Only training smooths labels, so losses of
  #   evaluations with other settings are comparable.
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
  if label_smoothing and mode == trainer.ModeKeys.TRAIN:
    even = -tf.reduce_mean(tf.nn.log_softmax(logits), -1)
    losses = (1 - label_smoothing) * losses + label_smoothing * even
  if sample_weight is not None:
    losses *= sample_weight
  loss = tf.reduce_mean(losses)
  if mode == trainer.ModeKeys.EVAL:
    return trainer.EstimatorSpec(
      mode, loss=loss, eval_metrics=(metric_fn, {"labels": labels, "classes": predictions["class"]})
    )

  # 4. The training step: one update of all trainable variables.
  return trainer.EstimatorSpec(mode, loss=loss, train_op=trainer.minimize(optimizer(), loss))


def metric_fn(labels: tf.Tensor, classes: tf.Tensor) -> dict[str, keras.metrics.Metric]:
  """Updates the metrics of an evaluation with a batch.

  The host calls it with the tensors of eval_metrics, gathered from all cores.
  """
  accuracy = keras.metrics.Accuracy()
  accuracy.update_state(labels, classes)
  return {"accuracy": accuracy}
