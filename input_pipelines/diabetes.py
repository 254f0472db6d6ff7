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

import functools
from typing import Any

import gin
import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from . import in_memory, tabular

SPLITS = ("train", "test")
_EVERY = 5  # the first row of each so many is for the test


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
  return encoder.mark(dataset, table)


@gin.configurable
@trainer.check_settings
def target_statistics() -> tabular.Statistics:
  """Returns ((mean,), (standard deviation,)) of the target in the training set."""
  _, _, labels = load("train")
  return (float(labels.mean()),), (float(labels.std()),)


@functools.cache  # each evaluation calls input_fn again
def load(split: str) -> tuple[tabular.Encoder, tabular.Table, np.ndarray]:
  """Returns the encoder of the training set, and the columns and labels of a split of SPLITS.

  Raises:
    SettingError: there is no such split.
  """
  if split not in SPLITS:
    raise errors.SettingError(
      f"diabetes: there is no split {split!r}; expected one of {', '.join(SPLITS)} (gin: "
      "diabetes.input_fn.split)."
    )
  from sklearn import datasets  # here, because the import takes a second

  found = datasets.load_diabetes(scaled=False)
  is_test = np.arange(len(found.target)) % _EVERY == 0
  names = [str(name) for name in found.feature_names]
  encoder = tabular.Encoder.fit(dict(zip(names, found.data[~is_test].T, strict=True)), names)
  rows = is_test if split == "test" else ~is_test
  table = dict(zip(names, found.data[rows].T, strict=True))
  return encoder, table, found.target[rows].astype(np.float32)
