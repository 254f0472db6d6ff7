"""A CNN for CIFAR-10: two pairs of convolutions, with batch norm before each, and a hidden layer.

Example:
    BatchNorm → Conv 32 3×3 same ReLU ×2 → MaxPool 2 → Dropout .25
    BatchNorm → Conv 64 3×3 same ReLU → Conv 64 3×3 valid ReLU → MaxPool 2 → Dropout .25
    Flatten → Dense 512 ReLU → Dropout .5 → Dense 10
"""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import tensorflow as tf

import trainer

from . import averaged_views, classification


@gin.configurable
def model_fn(
  features: dict[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  params: dict[str, Any],
  classes: int = 10,
  filters: Sequence[int] = (32, 64),
  units: int = 512,
  conv_dropout: float = 0.25,
  dense_dropout: float = 0.5,
  optimizer: Callable[[], Any] = keras.optimizers.Adam,
  label_smoothing: float = 0.0,
  task: classification.Task = classification.spec,
  views: averaged_views.Views = "one",
  sample_weight: tf.Tensor | None = None,
) -> trainer.EstimatorSpec:
  """Classifies small images.

  Args:
    features: {"image": float32 [b, h, w, c]}, of at least 8×8 pixels.
    labels: int32 [b], or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    classes: number of classes; of a regression, of targets.
    filters: numbers of filters in the first and the second pair of convolutions.
    units: width of the hidden layer.
    conv_dropout: share of values dropped after each pair of convolutions.
    dense_dropout: share of values dropped after the hidden layer.
    optimizer: makes the optimizer, such as its class.
    label_smoothing: see `classification.spec`.
    task: the task: classification.spec, multi_label.spec or regression.spec.
    views: of each image in evaluation, prediction and exports, see `averaged_views`.
    sample_weight: float32 [b], weights of the examples; the framework passes them if there are
      any.
  """
  del params
  settings = classes, filters, units, conv_dropout, dense_dropout
  logits = averaged_views.logits(
    lambda image, training: network(image, training, *settings), features["image"], mode, views
  )
  return task(mode, logits, labels, optimizer, label_smoothing, sample_weight=sample_weight)


def network(
  image: tf.Tensor,
  training: bool,
  classes: int,
  filters: Sequence[int],
  units: int,
  conv_dropout: float,
  dense_dropout: float,
) -> tf.Tensor:
  """Maps images [b, h, w, c] to logits (float32 [b, classes]); see `model_fn`."""
  x = image
  for count, second_padding in zip(filters, ("same", "valid"), strict=True):
    x = keras.layers.BatchNormalization()(x, training=training)
    x = keras.layers.Conv2D(count, 3, padding="same", activation="relu")(x)
    x = keras.layers.Conv2D(count, 3, padding=second_padding, activation="relu")(x)
    x = keras.layers.MaxPooling2D(2)(x)
    x = keras.layers.Dropout(conv_dropout)(x, training=training)
  x = keras.layers.Flatten()(x)
  x = keras.layers.Dense(units, activation="relu")(x)
  x = keras.layers.Dropout(dense_dropout)(x, training=training)
  # float32 also with --precision=bfloat16: its 8 bits are too few for the loss.
  return keras.layers.Dense(classes, dtype="float32")(x)
