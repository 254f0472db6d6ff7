"""What the batches of a group give, brought together: metrics, losses, predictions."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.programs import host_metrics as metrics_lib


def add_to_metrics(
  host_metrics: metrics_lib.HostMetrics, metric_fn: Callable | None, tensors: Any, counts: tf.Tensor
) -> dict[str, Callable[[], tf.Tensor]]:
  """Adds the counting batches of a group to metrics; called during the trace of a function.

  Args:
    host_metrics: the metrics.
    metric_fn: the metric_fn, or None.
    tensors: its arguments, [cores · per-core batch, ...].
    counts: bool [cores].

  Returns:
    The result of HostMetrics.update.
  """
  cores = tf.where(counts)  # int64 [counting batches, 1]

  # tf.boolean_mask and tf.repeat would add fifty operations for each tensor.
  def rows_of(size, numbers):
    return tf.reshape(cores * size + numbers, [-1])

  rows_of_known = functools.cache(lambda size: rows_of(size, np.arange(size)))

  def of_whole(tensor):
    size = first_size(tensor) // counts.shape.as_list()[0]
    is_known = isinstance(size, int)
    return tf.gather(tensor, rows_of_known(size) if is_known else rows_of(size, tf.range(size)))

  return host_metrics.update(metric_fn, tf.nest.map_structure(of_whole, tensors))


def first_size(tensor: tf.Tensor) -> Any:
  """Returns the size of a tensor's first axis: an int, or int64 if the trace does not know it.

  Some layers lose the size of the batch, such as TextVectorization.
  """
  # A list also where a program has turned TensorFlow's new shapes off.
  size = None if tensor.shape.rank is None else tensor.shape.as_list()[0]
  return tf.shape(tensor, tf.int64)[0] if size is None else size


def sums_of_losses(losses: tuple, rows: tf.Tensor) -> tf.Tensor:
  """Returns the sums of a group's losses.

  Args:
    losses: (rest, (total, count), ...), float32 [cores] each; see `global_means.evaluated`. The
      rest is the mean of a batch.
    rows: int64 [cores], the examples that count in each batch.

  Returns:
    float64 [1 + global means, 2]: a sum of values and its divisor, for the rest and for each mean.
    The loss is the sum of the quotients.
  """
  rest, *pairs = tf.nest.map_structure(lambda values: tf.cast(values, tf.float64), losses)
  examples = tf.cast(rows, tf.float64)
  pairs = [(rest * examples, examples), *pairs]
  # What an empty batch gives may be anything, also NaN.
  return tf.reduce_sum(tf.where(rows > 0, tf.stack(pairs), 0), -1)


def without_padding(predictions: Any, rows: np.ndarray, element: Any) -> tuple[Any, Any]:
  """Drops the padding from a group's predictions and examples.

  Args:
    predictions: nest of numpy arrays [cores · per-core batch, ...].
    rows: int64 [cores], the real examples in each core's batch.
    element: the examples, in the same form; or None.

  Returns:
    (predictions, element): the real examples only.
  """
  size = tf.nest.flatten(predictions)[0].shape[0] // len(rows)
  if (rows == size).all():
    return predictions, element

  def real(array):
    return np.concatenate([array[i * size : i * size + count] for i, count in enumerate(rows)])

  # tf.nest would take None for an example.
  of_examples = None if element is None else tf.nest.map_structure(real, element)
  return tf.nest.map_structure(real, predictions), of_examples


def on_host(tensors: Any) -> Any:
  """Returns the numpy arrays of tensors; waits for them."""
  return tf.nest.map_structure(lambda tensor: tensor.numpy(), tensors)
