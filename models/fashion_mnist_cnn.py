"""A CNN for Fashion-MNIST: three convolutions and two dense layers.

Example:
    BatchNorm → Conv 64 5×5 same ELU → MaxPool 2 → Dropout .25
    BatchNorm → Conv 128 5×5 same ELU → MaxPool 2 → Dropout .25
    BatchNorm → Conv 256 5×5 same ELU → MaxPool 2 → Dropout .25
    Flatten → Dense 256 ELU → Dropout .5 → Dense 10
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
  filters: Sequence[int] = (64, 128, 256),
  units: int = 256,
  conv_dropout: float = 0.25,
  dense_dropout: float = 0.5,
  norm_momentum: float = 0.99,
  optimizer: Callable[[], Any] = keras.optimizers.Adam,
  label_smoothing: float = 0.0,
  views: averaged_views.Views = "one",
  sample_weight: tf.Tensor | None = None,
) -> trainer.EstimatorSpec:
  """Classifies small grey images.

  Args:
    features: {"image": float32 [b, 28, 28, 1] in 0..1}.
    labels: int32 [b], or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    classes: number of classes.
    filters: number of filters in each convolution.
    units: width of the hidden layer.
    conv_dropout: share of values dropped after each convolution.
    dense_dropout: share of values dropped after the hidden layer.
    norm_momentum: the momentum of batch norm's moving averages, for evaluation. The averages cover
      about 1 / (1 - norm_momentum) steps.
    optimizer: makes the optimizer, such as its class. Adam's default learning rate is 0.001.
    label_smoothing: see `classification.spec`.
    views: of each image in evaluation, prediction and exports, see `averaged_views`.
    sample_weight: float32 [b], weights of the examples; the framework passes them if there are
      any.
  """
  del params
  settings = classes, filters, units, conv_dropout, dense_dropout, norm_momentum
  logits = averaged_views.logits(
    lambda image, training: network(image, training, *settings), features["image"], mode, views
  )
  return classification.spec(
    mode, logits, labels, optimizer, label_smoothing, sample_weight=sample_weight
  )


def network(
  image: tf.Tensor,
  training: bool,
  classes: int,
  filters: Sequence[int],
  units: int,
  conv_dropout: float,
  dense_dropout: float,
  norm_momentum: float = 0.99,
) -> tf.Tensor:
  """Maps images [b, h, w, c] to logits (float32 [b, classes]); see `model_fn`."""
  x = image
  for count in filters:
    x = keras.layers.BatchNormalization(momentum=norm_momentum)(x, training=training)
    x = keras.layers.Conv2D(count, 5, padding="same", activation="elu")(x)
    x = keras.layers.MaxPooling2D(2)(x)
    x = keras.layers.Dropout(conv_dropout)(x, training=training)
  x = keras.layers.Flatten()(x)
  x = keras.layers.Dense(units, activation="elu")(x)
  x = keras.layers.Dropout(dense_dropout)(x, training=training)
  # float32 also with --precision=bfloat16, whose 8 bits are too few for the loss.
  return keras.layers.Dense(classes, dtype="float32")(x)
