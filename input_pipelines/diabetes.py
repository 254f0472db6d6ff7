"""Diabetes: how far the disease of 442 patients went in a year, from scikit-learn.

    run.train_input_fn = @train/diabetes.input_fn
    train/diabetes.input_fn.training = True
    test/diabetes.input_fn.split = "test"
    regression.spec.statistics = @diabetes.target_statistics()

The set has no splits. Here every fifth patient is for the test: 353 for the training, 89 for the
test. `tabular` normalises ten measurements with the training set's statistics; the target is a
score from 25 to 346.

Source: B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, "Least Angle Regression" (2004), from
`sklearn.datasets.load_diabetes`.
"""

from typing import Any

import gin
import numpy as np
import tensorflow as tf

import trainer

from . import in_memory, sklearn_tables, table_columns, table_encoder


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any], split: str = "train", training: bool = False, start: int = 0
) -> tf.data.Dataset:
  """Reads the patients.

  Args:
    params: dict with "batch_size".
    split: "train" or "test".
    training: whether to shuffle and repeat without end.
    start: number of examples that the training has seen; the framework sets it.

  Returns:
    A dataset of ({"numbers": float32 [b, 10]}, labels float32 [b]).

  Raises:
    SettingError: there is no such split.
  """
  encoder, table, labels = load(split)
  dataset = in_memory.batches(
    encoder.features(table), labels, params["batch_size"], training=training, start=start
  )
  return encoder.mark(dataset, table, training=training)


@gin.configurable
@trainer.check_settings
def target_statistics() -> table_encoder.Statistics:
  """Returns ((mean,), (standard deviation,)) of the target in the training set."""
  _, _, labels = load("train")
  return (float(labels.mean()),), (float(labels.std()),)


def load(split: str) -> tuple[table_encoder.Encoder, table_columns.Table, np.ndarray]:
  """Returns the encoder of the training set, and the columns and labels of a split.

  Raises:
    SettingError: there is no such split.
  """
  return sklearn_tables.load("diabetes", split, np.float32, scaled=False)
