"""A five-layer network for Fashion-MNIST: three convolutions, each with batch norm before and
pooling and dropout behind, and two dense layers.

Example:
    BatchNorm → Conv 64 5×5 same ELU → MaxPool 2 → Dropout .25
    BatchNorm → Conv 128 5×5 same ELU → MaxPool 2 → Dropout .25
    BatchNorm → Conv 256 5×5 same ELU → MaxPool 2 → Dropout .25
    Flatten → Dense 256 ELU → Dropout .5 → Dense 10
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
  filters=(64, 128, 256),
  units=256,
  conv_dropout=0.25,
  dense_dropout=0.5,
  norm_momentum=0.99,
  optimizer=keras.optimizers.Adam,
  label_smoothing=0.0,
):
  """A classifier of small grey images.

  Args:
    features: {"image": float32 [b, 28, 28, 1] in 0..1}.
    labels: int32 [b], or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    classes: number of classes.
    filters: of the convolutions, one after another.
    units: width of the hidden layer.
    conv_dropout, dense_dropout: the share dropped after each convolution, and after the hidden
      layer.
    norm_momentum: of batch norm's moving averages, which evaluation uses: they follow over about 1
      / (1 - norm_momentum) steps.
    optimizer: a class or callable that makes the optimizer; Adam's learning rate is 0.001 where
      nobody sets it.
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
    norm_momentum,
  )
  return classification.spec(mode, logits, labels, optimizer, label_smoothing)


def network(
  image, training, classes, filters, units, conv_dropout, dense_dropout, norm_momentum=0.99
):
  """float32 [b, classes], logits."""
  x = image
  for count in filters:
    x = keras.layers.BatchNormalization(momentum=norm_momentum)(x, training=training)
    x = keras.layers.Conv2D(count, 5, padding="same", activation="elu")(x)
    x = keras.layers.MaxPooling2D(2)(x)
    x = keras.layers.Dropout(conv_dropout)(x, training=training)
  x = keras.layers.Flatten()(x)
  x = keras.layers.Dense(units, activation="elu")(x)
  x = keras.layers.Dropout(dense_dropout)(x, training=training)
  return keras.layers.Dense(classes, dtype="float32")(x)
