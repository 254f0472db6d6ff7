"""Tensors of a step on their way to the host, with an entry for each example of the batch."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf


class Sent:
  """A tensor of each core, whole.

  Args:
    key: its name on the way.
    size: the examples of a core; None where a core's batch has any number of them, and there is one
      core.
    restore: makes of a core's rows the tensor as it was.
  """

  def __init__(self, key: str, size: int | None, restore: Callable):
    self._key, self._size, self._restore = key, size, restore

  def cores(self, gathered: Mapping[str, tf.Tensor]) -> tf.Tensor | None:
    """How many cores have sent it; None where there is one."""
    return None if self._size is None else tf.shape(gathered[self._key])[0] // self._size

  def of_core(self, gathered: Mapping[str, tf.Tensor], core: Any) -> tf.Tensor:
    """The tensor of one of them."""
    rows = gathered[self._key]
    if self._size is not None:
      shape = [self._size, *rows.shape[1:]]
      rows = tf.ensure_shape(rows[core * self._size : (core + 1) * self._size], shape)
    return self._restore(rows)


def send(key: str, tensor: tf.Tensor, batch: Any) -> tuple[tf.Tensor, Sent]:
  """Makes a tensor of any shape one that can be sent.

  Args:
    key: its name on the way.
    tensor: it.
    batch: the number of examples: an int, or a tensor.

  Returns:
    (what is sent, how it is restored).
  """
  size = batch if isinstance(batch, int) else None
  shape = tensor.shape
  if size is not None and shape.rank and shape[0] == size:
    return tensor, Sent(key, size, lambda rows: rows)
  if shape.is_fully_defined():
    return tf.repeat(tensor[tf.newaxis], batch, 0), Sent(key, size, lambda rows: rows[0])

  def restore(rows: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.io.parse_tensor(rows[0], tensor.dtype), shape)

  return _first_of(tf.io.serialize_tensor(tensor), batch), Sent(key, size, restore)


def _first_of(text: tf.Tensor, batch: Any) -> tf.Tensor:
  """A text as that of the first example; those of all others are empty."""
  return tf.concat([[text], tf.fill([batch - 1], "")], 0)


def by_example(tensor: tf.Tensor, batch: Any) -> tuple[tf.Tensor, Callable]:
  """A tensor with an entry for each example, and a function that makes of many the tensor again.

  A scalar, as of a batch's mean, becomes the value of each example, and so does a single row, which
  is how programs made a scalar one that a TPU could send; several rows for an example, as of its
  words, become one row of them. Rows whose number is not known before, as those of a mask, are sent
  in one piece.
  """
  if tensor.shape.rank == 0:
    return tf.fill([batch], tensor), lambda gathered: gathered
  rows = tensor.shape.as_list()[0] if tensor.shape.rank is not None else None
  if rows == 1:
    return tf.repeat(tensor, batch, 0), lambda gathered: gathered
  if rows is None and isinstance(batch, int) and tensor.shape.rank is not None:
    return _as_one_string(tensor, batch)
  if not isinstance(batch, int) or rows is None or rows == batch or rows % batch:
    return tensor, lambda gathered: gathered
  shape = tensor.shape[1:].as_list()
  return (
    tf.reshape(tensor, [batch, rows // batch, *shape]),
    lambda gathered: tf.reshape(gathered, [-1, *shape]),
  )


def _as_one_string(tensor: tf.Tensor, batch: int) -> tuple[tf.Tensor, Callable]:
  """A tensor with any number of rows as the string of the first example; all others are empty."""
  dtype, shape = tensor.dtype, tensor.shape.as_list()

  def restore(gathered: tf.Tensor) -> tf.Tensor:
    of_cores = tf.map_fn(
      lambda one: tf.ensure_shape(tf.io.parse_tensor(one, dtype), shape),
      tf.boolean_mask(gathered, tf.not_equal(gathered, "")),
      fn_output_signature=tf.RaggedTensorSpec(shape, dtype, ragged_rank=0),
    )
    return of_cores.values

  return _first_of(tf.io.serialize_tensor(tensor), batch), restore
