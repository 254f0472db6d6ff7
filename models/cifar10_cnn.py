"""The CIFAR-10 CNN: four convolutions with batch norm before each pair, and one hidden layer.

Example:
    BatchNorm → Conv 32 3×3 same ReLU ×2 → MaxPool 2 → Dropout .25
    BatchNorm → Conv 64 3×3 same ReLU → Conv 64 3×3 valid ReLU → MaxPool 2 → Dropout .25
    Flatten → Dense 512 ReLU → Dropout .5 → Dense 10
"""

import gin
import keras

import trainer
from models import classification


@gin.configurable
def model_fn(
  features,
  labels,
  mode,
  params,
  classes=10,
  filters=(32, 64),
  units=512,
  conv_dropout=0.25,
  dense_dropout=0.5,
  optimizer=keras.optimizers.Adam,
  label_smoothing=0.0,
):
  """A classifier of small images.

  Args:
    features: {"image": float32 [b, h, w, c]}, of at least 8×8 pixels.
    labels: int32 [b], or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    classes: number of classes.
    filters: of the first and the second pair of convolutions.
    units: width of the hidden layer.
    conv_dropout, dense_dropout: the share dropped after each pair of convolutions, and after the
      hidden layer.
    optimizer: a class or callable that makes the optimizer.
    label_smoothing: see `classification.spec`.
  """
  del params
  logits = network(
    features["image"],
    mode == trainer.ModeKeys.TRAIN,
    classes,
    filters,
    units,
    conv_dropout,
    dense_dropout,
  )
  return classification.spec(mode, logits, labels, optimizer, label_smoothing)


def network(image, training, classes, filters, units, conv_dropout, dense_dropout):
  """float32 [b, classes], logits."""
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
  return keras.layers.Dense(classes, dtype="float32")(x)
