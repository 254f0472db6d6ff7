"""tf.contrib.data: the functions that tf.data.experimental lacks."""

from collections.abc import Callable
from typing import Any


def batch_and_drop_remainder(batch_size: Any) -> Callable:
  """dataset.batch(batch_size, drop_remainder=True)."""
  return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
  batch_size: Any, padded_shapes: Any, padding_values: Any = None
) -> Callable:
  """dataset.padded_batch(..., drop_remainder=True)."""
  return lambda dataset: dataset.padded_batch(
    batch_size, padded_shapes, padding_values, drop_remainder=True
  )
