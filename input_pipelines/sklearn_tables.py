"""The tables of scikit-learn. They have no splits: here every fifth row is for the test."""

import functools
from typing import Any

import numpy as np

from . import in_memory, table_columns, table_encoder

SPLITS = ("train", "test")
_EVERY = 5  # the first row of each so many is for the test


@functools.cache  # each evaluation calls the input_fn again
def load(
  name: str, split: str, dtype: type, **options: Any
) -> tuple[table_encoder.Encoder, table_columns.Table, np.ndarray]:
  """Loads a split of a table.

  Args:
    name: of the table: `sklearn.datasets.load_NAME` returns it. Messages name the gin setting
      `NAME.input_fn.split`.
    split: one of SPLITS.
    dtype: of the labels.
    **options: arguments of scikit-learn's function.

  Returns:
    The encoder of the training rows, and the columns and labels of the split.

  Raises:
    SettingError: there is no such split.
  """
  in_memory.check_split(name, split, SPLITS)
  from sklearn import datasets  # here, because the import takes a second

  found = getattr(datasets, f"load_{name}")(**options)
  is_test = np.arange(len(found.target)) % _EVERY == 0
  names = [str(column) for column in found.feature_names]
  encoder = table_encoder.Encoder.fit(dict(zip(names, found.data[~is_test].T, strict=True)), names)
  rows = is_test if split == "test" else ~is_test
  table = dict(zip(names, found.data[rows].T, strict=True))
  return encoder, table, found.target[rows].astype(dtype)
