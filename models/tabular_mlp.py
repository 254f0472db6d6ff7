"""A small network for the rows of a table: normalised numbers, and an embedding of each category.

run.model_fn = @tabular_mlp.model_fn
tabular_mlp.model_fn.classes = 2
tabular_mlp.model_fn.vocabulary_sizes = @tabular.vocabulary_sizes()    # with categories
"""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import tensorflow as tf

import trainer
from trainer import errors

from . import classification


@gin.configurable
def model_fn(
  features: dict[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  params: dict[str, Any],
  classes: int = gin.REQUIRED,
  vocabulary_sizes: Sequence[int] = (),
  embedding_units: int = 8,
  hidden_units: Sequence[int] = (64, 32),
  dropout: float = 0.2,
  optimizer: Callable[[], Any] = keras.optimizers.Adam,
  label_smoothing: float = 0.0,
  task: classification.Task = classification.spec,
  sample_weight: tf.Tensor | None = None,
) -> trainer.EstimatorSpec:
  """Classifies rows.

  Args:
    features: dict with "numbers" (float32 [batch, n]), "categories" (int32 [batch, m]) or both,
      from `input_pipelines.tabular`.
    labels: int32 [batch]; None when predicting.
    mode: one of trainer.ModeKeys.
    params: not used.
    classes: number of classes; of a regression, of targets.
    vocabulary_sizes: number of ids of each category, in the order of the features.
    embedding_units: size of the vector of a category's value.
    hidden_units: sizes of the hidden layers.
    dropout: share of hidden units that a training step drops.
    optimizer: makes a Keras optimizer.
    label_smoothing: share of each label to spread evenly over the classes.
    task: the task: classification.spec, multi_label.spec or regression.spec.
    sample_weight: float32 [b], weights of the examples; the framework passes them if there are
      any.

  Returns:
    The EstimatorSpec of a classifier, see `models.classification`.

  Raises:
    SettingError: vocabulary_sizes do not fit the features.
  """
  parts = [features["numbers"]] if "numbers" in features else []
  count = features["categories"].shape[-1] if "categories" in features else 0
  if count != len(vocabulary_sizes):
    raise errors.SettingError(
      f"tabular_mlp.model_fn.vocabulary_sizes has {len(vocabulary_sizes)} sizes, and the features "
      f"have {count} categories: bind @tabular.vocabulary_sizes()."
    )
  for index, size in enumerate(vocabulary_sizes):
    parts.append(keras.layers.Embedding(size, embedding_units)(features["categories"][:, index]))
  x = tf.concat([tf.cast(part, tf.float32) for part in parts], -1)
  for units in hidden_units:
    x = keras.layers.Dense(units, activation="relu")(x)
    x = keras.layers.Dropout(dropout)(x, training=mode == trainer.ModeKeys.TRAIN)
  logits = keras.layers.Dense(classes, dtype="float32")(x)
  return task(mode, logits, labels, optimizer, label_smoothing, sample_weight=sample_weight)
