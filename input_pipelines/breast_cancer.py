"""Breast cancer: 30 measurements of 569 tumours, from scikit-learn.

    run.train_input_fn = @train/breast_cancer.input_fn
    train/breast_cancer.input_fn.training = True
    test/breast_cancer.input_fn.split = "test"

The set has no splits. Here every fifth tumour is for the test: 455 for the training, 114 for the
test. `tabular` normalises the measurements with the training set's statistics.

Source: Breast Cancer Wisconsin (Diagnostic), W. H. Wolberg, W. N. Street and O. L. Mangasarian
(1995), from `sklearn.datasets.load_breast_cancer`.
"""

import functools
from typing import Any

import gin
import numpy as np
import tensorflow as tf

import trainer

from . import in_memory, sklearn_tables

CLASS_NAMES = ("malignant", "benign")
gin.constant("breast_cancer.CLASS_NAMES", CLASS_NAMES)


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any], split: str = "train", training: bool = False, start: int = 0
) -> tf.data.Dataset:
  """Reads the tumours.

  Args:
    params: dict with "batch_size".
    split: "train" or "test".
    training: whether to shuffle and repeat without end.
    start: number of examples that the training has seen; the framework sets it.

  Returns:
    A dataset of ({"numbers": float32 [b, 30]}, labels int32 [b], the places in CLASS_NAMES).

  Raises:
    SettingError: there is no such split.
  """
  features, labels = load(split)
  dataset = in_memory.batches(
    features, labels, params["batch_size"], training=training, start=start
  )
  encoder, table, _ = sklearn_tables.load("breast_cancer", split, np.int32)
  return encoder.mark(dataset, table, training=training)


@functools.cache  # each evaluation calls input_fn again
def load(split: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
  """Returns the features and labels of a split.

  Raises:
    SettingError: there is no such split.
  """
  encoder, table, labels = sklearn_tables.load("breast_cancer", split, np.int32)
  return encoder.features(table), labels
