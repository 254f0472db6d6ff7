"""A small Transformer encoder that classifies texts: token ids of a fixed length.

    Embedding + positions → Dropout
    → [LayerNorm → attention → + → LayerNorm → MLP → +] × layers
    → LayerNorm → mean over the tokens → Dense

A. Vaswani et al., "Attention Is All You Need" (2017), with the norm before each part: R. Xiong et
al., "On Layer Normalization in the Transformer Architecture" (2020). No token attends to padding
(id 0), and the mean leaves it out.
"""

from collections.abc import Callable
from typing import Any

import gin
import keras
import tensorflow as tf

import trainer
from trainer import errors

from . import classification

PADDING = 0


@gin.configurable
def model_fn(
  features: dict[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  params: dict[str, Any],
  classes: int = 2,
  vocabulary_file: str | None = None,
  vocabulary_size: int | None = None,
  layers: int = 2,
  units: int = 128,
  heads: int = 4,
  mlp_units: int = 256,
  dropout: float = 0.1,
  optimizer: Callable[[], Any] = keras.optimizers.Adam,
  label_smoothing: float = 0.0,
  task: classification.Task = classification.spec,
  sample_weight: tf.Tensor | None = None,
) -> trainer.EstimatorSpec:
  """Classifies texts, or does another task for them.

  Args:
    features: {"tokens": int32 [b, length]}, padded with 0.
    labels: int32 [b], or those of the task, or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    classes: number of classes; of outputs, for another task.
    vocabulary_file: the file with one word a line that defines the ids. Of n words the ids are 1 to
      n, and n + 1 for all other words. Set this or vocabulary_size, not both.
    vocabulary_size: all ids are less than this.
    layers: number of blocks of attention and MLP.
    units: width of a token; a multiple of heads.
    heads: number of attention heads.
    mlp_units: hidden width of the MLP.
    dropout: share of values dropped after the embedding and after each part.
    optimizer: makes the optimizer, such as its class.
    label_smoothing: see `classification.spec`.
    task: the task: classification.spec, multi_label.spec or regression.spec.
    sample_weight: float32 [b], weights of the examples; the framework passes them if there are
      any.

  Raises:
    SettingError: neither or both of the vocabulary's settings have values, the file does not exist,
      or units is not a multiple of heads.
  """
  del params
  if units % heads:
    raise errors.SettingError(
      f"transformer_classifier: units ({units}) must be a multiple of "
      f"heads ({heads}) (gin: model_fn.units)."
    )
  size = _vocabulary_size(vocabulary_file, vocabulary_size)
  logits = network(
    features["tokens"],
    mode == trainer.ModeKeys.TRAIN,
    classes,
    size,
    layers,
    units,
    heads,
    mlp_units,
    dropout,
  )
  return task(mode, logits, labels, optimizer, label_smoothing, sample_weight=sample_weight)


def network(
  tokens: tf.Tensor,
  training: bool,
  classes: int,
  vocabulary_size: int,
  layers: int,
  units: int,
  heads: int,
  mlp_units: int,
  dropout: float,
) -> tf.Tensor:
  """Maps token ids [b, length] to logits (float32 [b, classes]); see `model_fn`."""

  def dropped(x):
    return keras.layers.Dropout(dropout)(x, training=training)

  present = tf.not_equal(tokens, PADDING)  # [b, length]
  positions = keras.layers.Embedding(tokens.shape[1], units, name="positions")(
    tf.range(tokens.shape[1])
  )
  x = dropped(keras.layers.Embedding(vocabulary_size, units, name="tokens")(tokens) + positions)
  for _ in range(layers):
    y = keras.layers.LayerNormalization()(x)
    attention = keras.layers.MultiHeadAttention(heads, units // heads, dropout=dropout)
    x += dropped(attention(y, y, attention_mask=present[:, None, :], training=training))
    y = keras.layers.Dense(mlp_units, activation="gelu")(keras.layers.LayerNormalization()(x))
    x += dropped(keras.layers.Dense(units)(y))
  x = tf.cast(keras.layers.LayerNormalization()(x), tf.float32)
  weights = tf.cast(present, tf.float32)[:, :, None]
  # The maximum avoids 0 / 0 for a text without tokens: its mean is then 0.
  mean = tf.reduce_sum(x * weights, 1) / tf.maximum(tf.reduce_sum(weights, 1), 1.0)
  return keras.layers.Dense(classes, dtype="float32", name="output")(mean)


def _vocabulary_size(path, size):
  if (path is None) == (size is None):
    raise errors.SettingError(
      f"transformer_classifier: set one of vocabulary_file ({path!r}) and vocabulary_size "
      f"({size!r}) (gin: transformer_classifier.model_fn)."
    )
  if path is None:
    return size
  if not tf.io.gfile.exists(path):
    raise errors.SettingError(
      f"transformer_classifier: there is no vocabulary file {path!r} (gin: "
      "transformer_classifier.model_fn.vocabulary_file)."
    )
  with tf.io.gfile.GFile(path) as file:
    return sum(1 for _ in file) + 2  # the padding and the unknown word
