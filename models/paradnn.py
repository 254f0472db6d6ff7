"""ParaDnn: networks of any width, depth and input size, to compare hardware.

    paradnn.model_fn.family = "bottleneck"
    paradnn.model_fn.blocks = (3, 4, 6, 3)
    paradnn.model_fn.filters = 64

Source: Y. E. Wang, G.-Y. Wei, D. Brooks, "Benchmarking TPU, GPU, and CPU Platforms for Deep
Learning" (2019), arXiv:1907.10701. Its sweeps:

    fully connected   4 to 128 layers of 32 to 8192 nodes, input 2000 to 8000, output 200 to 1000
    CNN               1 to 8 blocks a group, 16 to 64 filters in the first group, images of 100 to
                      300 pixels, output 500 to 1500
    RNN               1 to 13 layers, sequences of 10 to 90 tokens, embeddings of 100 to 900

The input_fn determines the sizes of the input: vector, image, length of the sequence, batch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import tensorflow as tf

import trainer
from trainer import errors

from . import classification

_CELLS = {"rnn": keras.layers.SimpleRNN, "lstm": keras.layers.LSTM, "gru": keras.layers.GRU}
FAMILIES = ("fully_connected", "residual", "bottleneck", *_CELLS)


@gin.configurable
def model_fn(
  features: dict[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  params: dict[str, Any],
  family: str = "fully_connected",
  layers: int = 4,
  units: int = 1024,
  blocks: Sequence[int] = (1, 1, 1, 1),
  filters: int = 16,
  classes: int = 1000,
  vocabulary_size: int = 1024,
  optimizer: Callable[[], Any] = keras.optimizers.RMSprop,
  label_smoothing: float = 0.0,
) -> trainer.EstimatorSpec:
  """Classifies vectors or images, or predicts the next tokens, with a network of one family.

  Args:
    features: for "fully_connected" {"vector": float32 [b, n]}; for "residual" and "bottleneck"
      {"image": float32 [b, h, w, c]}; for "rnn", "lstm" and "gru" {"tokens": int32 [b, length +
      1]}. These networks see all tokens but the last and predict all but the first.
    labels: int32 [b], or None. The recurrent networks ignore them, since their labels are tokens.
    mode: one of trainer.ModeKeys.
    params: not used.
    family: one of FAMILIES.
    layers: number of hidden or recurrent layers.
    units: width of the hidden or recurrent layers and of the embedding.
    blocks: CNNs: number of blocks in each group.
    filters: CNNs: filters in the first group. Each further group has twice as many filters on
      images of half the size.
    classes: width of the output; recurrent networks have vocabulary_size instead.
    vocabulary_size: all tokens are less than this.
    optimizer: makes the optimizer, such as its class.
    label_smoothing: see `classification.spec`.

  Raises:
    SettingError: the family is unknown, or its features are missing.
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


def fully_connected(vector: tf.Tensor, layers: int, units: int, classes: int) -> tf.Tensor:
  """Maps vectors [b, n] to logits (float32 [b, classes]) with hidden layers of equal width."""
  x = vector
  for _ in range(layers):
    x = keras.layers.Dense(units, activation="relu")(x)
  return keras.layers.Dense(classes, dtype="float32", name="output")(x)


def convolutional(
  image: tf.Tensor,
  training: bool,
  bottleneck: bool,
  blocks: Sequence[int],
  filters: int,
  classes: int,
) -> tf.Tensor:
  """Maps images [b, h, w, c] to logits (float32 [b, classes]) with a ResNet.

  With bottlenecks, blocks (3, 4, 6, 3) and 64 filters this is ResNet-50 (with the stride in the 3×3
  convolutions). Without bottlenecks, blocks (2, 2, 2, 2) and 64 filters make ResNet-18.

  Args:
    image: [b, h, w, c].
    training: whether batch norm uses the statistics of the batch.
    bottleneck: whether blocks are 1×1, 3×3, 1×1 convolutions instead of two 3×3.
    blocks: number of blocks in each group.
    filters: in the first group.
    classes: number of classes.
  """
  x = _norm_relu(_conv(image, filters, 7, 2), training)
  x = keras.layers.MaxPooling2D(3, strides=2, padding="same")(x)
  for group, count in enumerate(blocks):
    for index in range(count):
      stride = 2 if group and not index else 1
      x = _block(x, training, bottleneck, filters * 2**group, stride)
  x = keras.layers.GlobalAveragePooling2D()(x)
  return keras.layers.Dense(classes, dtype="float32", name="output")(x)


def recurrent(
  tokens: tf.Tensor, cell: Callable[..., Any], layers: int, units: int, vocabulary_size: int
) -> tf.Tensor:
  """Maps tokens [b, length] to logits of the next ones (float32 [b, length, vocabulary_size]).

  Unrolls the loop over the tokens: XLA cannot compile the gradient of a loop of unknown length for
  a TPU.

  Args:
    tokens: int32 [b, length].
    cell: class of a recurrent Keras layer.
    layers: number of layers.
    units: width of the layers.
    vocabulary_size: all tokens are less than this.
  """
  x = keras.layers.Embedding(vocabulary_size, units)(tokens)
  for _ in range(layers):
    x = cell(units, return_sequences=True, unroll=True)(x)
  return keras.layers.Dense(vocabulary_size, dtype="float32", name="output")(x)


def _block(x, training, bottleneck, filters, stride):
  """A residual block: two 3×3 convolutions, or 1×1, 3×3, 1×1 with four times the filters."""
  outputs = 4 * filters if bottleneck else filters
  # In the first block of a group the shapes differ, and the shortcut needs a convolution.
  fits = stride == 1 and x.shape[-1] == outputs
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
