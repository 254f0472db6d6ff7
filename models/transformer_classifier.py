"""A small Transformer encoder that classifies texts, given as token ids of a fixed length.

    Embedding + positions → Dropout
    → [LayerNorm → attention → + → LayerNorm → MLP → +] × layers
    → LayerNorm → mean over the tokens → Dense

A. Vaswani et al., "Attention Is All You Need" (2017), with the norm before each part: R. Xiong et
al., "On Layer Normalization in the Transformer Architecture" (2020). What was padded (id 0) is
attended to by no token, and is not in the mean.
"""

import gin
import keras
import tensorflow as tf

import trainer
from models import classification
from trainer import errors

PADDING = 0


@gin.configurable
def model_fn(
  features,
  labels,
  mode,
  params,
  classes=2,
  vocabulary_file=None,
  vocabulary_size=None,
  layers=2,
  units=128,
  heads=4,
  mlp_units=256,
  dropout=0.1,
  optimizer=keras.optimizers.Adam,
  label_smoothing=0.0,
):
  """A classifier of texts.

  Args:
    features: {"tokens": int32 [b, length]}, padded with 0.
    labels: int32 [b], or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    classes: number of classes.
    vocabulary_file: the file that gave the ids, one word a line: of n words they are 1 to n, and n
      + 1 for all others. Exactly one of this and vocabulary_size.
    vocabulary_size: ids are less than this.
    layers: attention and MLP, so many times.
    units: width of a token; a multiple of heads.
    heads: attention heads.
    mlp_units: hidden width of the MLP.
    dropout: the share dropped after the embedding and after each part.
    optimizer: a class or callable that makes the optimizer.
    label_smoothing: see `classification.spec`.

  Raises:
    SettingError: the vocabulary's size is not known, the file is not there, or units and heads do
      not fit.
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
  return classification.spec(mode, logits, labels, optimizer, label_smoothing)


def network(tokens, training, classes, vocabulary_size, layers, units, heads, mlp_units, dropout):
  """float32 [b, classes], logits."""

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
  # A text without a token is all zero.
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
    return sum(1 for _ in file) + 2
