"""tf.contrib.data: functions that later became methods of datasets."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


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


def map_and_batch(
  map_func: Callable,
  batch_size: Any,
  num_parallel_batches: int | None = None,
  drop_remainder: bool = False,
  num_parallel_calls: Any = None,
) -> Callable:
  """dataset.map(map_func).batch(batch_size)."""
  calls = num_parallel_calls or tf.data.AUTOTUNE
  del num_parallel_batches

  def apply(dataset: Any) -> Any:
    return dataset.map(map_func, num_parallel_calls=calls).batch(batch_size, drop_remainder)

  return apply


def parallel_interleave(
  map_func: Callable,
  cycle_length: int,
  block_length: int = 1,
  sloppy: bool = False,
  buffer_output_elements: Any = None,
  prefetch_input_elements: Any = None,
) -> Callable:
  """dataset.interleave(...), in parallel."""
  del buffer_output_elements, prefetch_input_elements
  return lambda dataset: dataset.interleave(
    map_func,
    cycle_length,
    block_length,
    num_parallel_calls=tf.data.AUTOTUNE,
    deterministic=not sloppy,
  )


def shuffle_and_repeat(buffer_size: int, count: int | None = None, seed: Any = None) -> Callable:
  """dataset.shuffle(buffer_size).repeat(count)."""
  return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def unbatch() -> Callable:
  """dataset.unbatch()."""
  return lambda dataset: dataset.unbatch()
