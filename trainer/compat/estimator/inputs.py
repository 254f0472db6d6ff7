"""tf.estimator.inputs: input_fns over arrays and pandas tables."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf


def numpy_input_fn(
  x: Any,
  y: Any = None,
  batch_size: int = 128,
  num_epochs: int | None = 1,
  shuffle: bool | None = None,
  queue_capacity: int = 1000,
  num_threads: int = 1,
) -> Callable[[], tf.data.Dataset]:
  """Returns an input_fn over arrays.

  Args:
    x: array, or dict of name → array.
    y: the same for labels, or None.
    batch_size: examples in a batch; the last batch may have fewer.
    num_epochs: the number of passes over the arrays; None for endless.
    shuffle: whether in a random order. Required.
    queue_capacity: the number of examples in the shuffle buffer.
    num_threads: no effect.
  """
  del num_threads
  if not isinstance(shuffle, bool):
    raise ValueError(f"shuffle must be provided and explicitly set as boolean; got {shuffle!r}.")
  if x is None or (isinstance(x, Mapping) and not x):
    raise ValueError("x cannot be empty.")
  lengths = {len(array) for array in tf.nest.flatten((x,) if y is None else (x, y))}
  if len(lengths) != 1:
    raise ValueError(f"Length of arrays in x and y must be the same; got {sorted(lengths)}.")
  arrays = dict(x) if isinstance(x, Mapping) else x

  def input_fn() -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_tensor_slices(arrays if y is None else (arrays, y))
    if shuffle:
      dataset = dataset.shuffle(max(queue_capacity, batch_size))
    return dataset.repeat(num_epochs).batch(batch_size)

  return input_fn


def pandas_input_fn(
  x: Any,
  y: Any = None,
  batch_size: int = 128,
  num_epochs: int | None = 1,
  shuffle: bool | None = None,
  queue_capacity: int = 1000,
  num_threads: int = 1,
  target_column: str = "target",
) -> Callable[[], tf.data.Dataset]:
  """Returns an input_fn over the columns of a pandas.DataFrame; see numpy_input_fn."""
  if y is not None and target_column in x:
    raise ValueError(
      f"Cannot use name {target_column} for target column: DataFrame already has it."
    )
  features = {name: np.asarray(x[name]) for name in x.columns}
  labels = y
  if y is not None:
    labels = (
      {name: np.asarray(y[name]) for name in y.columns} if hasattr(y, "columns") else np.asarray(y)
    )
  return numpy_input_fn(
    features, labels, batch_size, num_epochs, shuffle, queue_capacity, num_threads
  )
