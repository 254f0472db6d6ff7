"""ParaDnn: networks whose width, depth and input size are numbers to sweep, to compare hardware and
not to be accurate.

    paradnn.model_fn.family = "bottleneck"
    paradnn.model_fn.blocks = (3, 4, 6, 3)
    paradnn.model_fn.filters = 64

Source: Y. E. Wang, G.-Y. Wei, D. Brooks, "Benchmarking TPU, GPU, and CPU Platforms for Deep
  Learning" (2019), arXiv:1907.10701. Its sweeps:

    fully connected   4 to 128 layers of 32 to 8192 nodes, input 2000 to 8000, output 200 to 1000
    CNN               1 to 8 blocks a group, 16 to 64 filters in the first group, images of 100 to
                      300 pixels, output 500 to 1500
    RNN               1 to 13 layers, sequences of 10 to 90 tokens, embeddings of 100 to 900

The sizes of the input (vector, image, length of the sequence, batch) are those of the input_fn.
"""

import gin
import keras
import tensorflow as tf

import trainer
from models import classification
from trainer import errors

_CELLS = {"rnn": keras.layers.SimpleRNN, "lstm": keras.layers.LSTM, "gru": keras.layers.GRU}
FAMILIES = ("fully_connected", "residual", "bottleneck", *_CELLS)


@gin.configurable
def model_fn(
  features,
  labels,
  mode,
  params,
  family="fully_connected",
  layers=4,
  units=1024,
  blocks=(1, 1, 1, 1),
  filters=16,
  classes=1000,
  vocabulary_size=1024,
  optimizer=keras.optimizers.RMSprop,
  label_smoothing=0.0,
):
  """A network of one of the families.

  Args:
    features: for "fully_connected" {"vector": float32 [b, n]}; for "residual" and "bottleneck"
      {"image": float32 [b, h, w, c]}; for "rnn", "lstm" and "gru" {"tokens": int32 [b, length +
      1]}, of which the network sees all but the last and predicts all but the first.
    labels: int32 [b], or None. The recurrent networks have theirs in the tokens and do not look at
      it.
    mode: one of trainer.ModeKeys.
    params: not used.
    family: one of FAMILIES.
    layers: hidden or recurrent layers.
    units: their width; that of the embedding too.
    blocks: CNN: blocks in each group.
    filters: CNN: filters in the first group; each further group has twice as many on half the size.
    classes: width of the output, of the recurrent networks vocabulary_size instead.
    vocabulary_size: tokens are less than this.
    optimizer: a class or callable that makes the optimizer.
    label_smoothing: see `classification.spec`.

  Raises:
    SettingError: there is no such family, or its features are not there.
  """
  del params
  if family not in FAMILIES:
    raise errors.SettingError(
      f"paradnn: family is {family!r}; expected one of "
      f"{', '.join(FAMILIES)} (gin: paradnn.model_fn.family)."
    )
  needed = "tokens" if family in _CELLS else "vector" if family == "fully_connected" else "image"
  if needed not in features:
    raise errors.SettingError(
      f"paradnn: the family {family!r} needs features[{needed!r}]; the "
      f"input_fn gives {', '.join(sorted(features))}."
    )
  if family in _CELLS:
    tokens = features["tokens"]
    logits = recurrent(tokens[:, :-1], _CELLS[family], layers, units, vocabulary_size)
    return classification.spec(mode, logits, tokens[:, 1:], optimizer, label_smoothing)
  if family == "fully_connected":
    logits = fully_connected(features["vector"], layers, units, classes)
  else:
    logits = convolutional(
      features["image"],
      mode == trainer.ModeKeys.TRAIN,
      family == "bottleneck",
      blocks,
      filters,
      classes,
    )
  return classification.spec(mode, logits, labels, optimizer, label_smoothing)


def fully_connected(vector, layers, units, classes):
  """float32 [b, classes]: `layers` hidden layers of `units`."""
  x = vector
  for _ in range(layers):
    x = keras.layers.Dense(units, activation="relu")(x)
  return keras.layers.Dense(classes, dtype="float32", name="output")(x)


def convolutional(image, training, bottleneck, blocks, filters, classes):
  """float32 [b, classes]: a ResNet with as many groups as `blocks` has numbers.

  With bottlenecks, (3, 4, 6, 3) and 64 filters it is ResNet-50 (with the stride in the 3×3
  convolutions); with blocks (2, 2, 2, 2) of the residual kind, ResNet-18.
  """
  x = _norm_relu(_conv(image, filters, 7, 2), training)
  x = keras.layers.MaxPooling2D(3, strides=2, padding="same")(x)
  for group, count in enumerate(blocks):
    for index in range(count):
      stride = 2 if group and not index else 1
      x = _block(x, training, bottleneck, filters * 2**group, stride)
  x = keras.layers.GlobalAveragePooling2D()(x)
  return keras.layers.Dense(classes, dtype="float32", name="output")(x)


def recurrent(tokens, cell, layers, units, vocabulary_size):
  """float32 [b, length, vocabulary_size]: what follows each token.

  Unrolled, since the gradient of a loop of unknown length compiles on no TPU.
  """
  x = keras.layers.Embedding(vocabulary_size, units)(tokens)
  for _ in range(layers):
    x = cell(units, return_sequences=True, unroll=True)(x)
  return keras.layers.Dense(vocabulary_size, dtype="float32", name="output")(x)


def _block(x, training, bottleneck, filters, stride):
  """Convolutions 3×3, 3×3, or 1×1, 3×3, 1×1 with four times the filters, around which x is
  added.
  """
  outputs = 4 * filters if bottleneck else filters
  fits = stride == 1 and x.shape[-1] == outputs  # in all but the first block of most groups
  shortcut = x if fits else _norm(_conv(x, outputs, 1, stride), training)
  if bottleneck:
    x = _norm_relu(_conv(x, filters, 1, 1), training)
    x = _norm_relu(_conv(x, filters, 3, stride), training)
    x = _norm(_conv(x, outputs, 1, 1), training)
  else:
    x = _norm_relu(_conv(x, filters, 3, stride), training)
    x = _norm(_conv(x, filters, 3, 1), training)
  return tf.nn.relu(x + shortcut)


def _conv(x, filters, size, stride):
  return keras.layers.Conv2D(filters, size, strides=stride, padding="same", use_bias=False)(x)


def _norm(x, training):
  return keras.layers.BatchNormalization()(x, training=training)


def _norm_relu(x, training):
  return tf.nn.relu(_norm(x, training))
