"""Gives tensors of an evaluation step an entry for each example, so that they can reach the host.

Octet gathers the eval_metrics of all cores, joins them along the batch and drops the entries of
padded examples. So every tensor that a metric needs gets a first axis of the core's batch size, and
its former shape again on the host.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf


class Sent:
  """Finds each core's tensor in the rows that the host gathered.

  Args:
    key: the name of the gathered rows.
    size: the number of examples of a core. None if the trace does not know the number: then there
      is one core.
    restore: function of a core's rows that returns the tensor in its former shape.
  """

  def __init__(self, key: str, size: int | None, restore: Callable):
    self._key, self._size, self._restore = key, size, restore

  def cores(self, gathered: Mapping[str, tf.Tensor]) -> tf.Tensor | None:
    """Returns the number of cores that sent the tensor; None for one core."""
    return None if self._size is None else tf.shape(gathered[self._key])[0] // self._size

  def of_core(self, gathered: Mapping[str, tf.Tensor], core: Any) -> tf.Tensor:
    """Returns the tensor of one core."""
    rows = gathered[self._key]
    if self._size is not None:
      # The slice has an unknown length in the graph; the copied operations rely on the static
      # shape.
      shape = [self._size, *rows.shape[1:]]
      rows = tf.ensure_shape(rows[core * self._size : (core + 1) * self._size], shape)
    return self._restore(rows)


def send(key: str, tensor: tf.Tensor, batch: Any) -> tuple[tf.Tensor, Sent]:
  """Gives a tensor of any shape a row for each example.

  Args:
    key: the name of the rows.
    tensor: the tensor.
    batch: the number of examples: an int, or a tensor.

  Returns:
    (rows, sent): the rows, and the Sent that finds the tensor in them.
  """
  size = batch if isinstance(batch, int) else None
  shape = tensor.shape
  if size is not None and shape.rank and shape[0] == size:
    return tensor, Sent(key, size, lambda rows: rows)
  if shape.is_fully_defined():
    return tf.repeat(tensor[tf.newaxis], batch, 0), Sent(key, size, lambda rows: rows[0])

  # Cores cannot repeat and join a tensor whose size differs from core to core. Each sends a string.
  def restore(rows: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.io.parse_tensor(rows[0], tensor.dtype), shape)

  return _first_of(tf.io.serialize_tensor(tensor), batch), Sent(key, size, restore)


def _first_of(text: tf.Tensor, batch: Any) -> tf.Tensor:
  """Returns strings, one for each example: the text for the first, and empty ones."""
  return tf.concat([[text], tf.fill([batch - 1], "")], 0)


def by_example(tensor: tf.Tensor, batch: Any) -> tuple[tf.Tensor, Callable]:
  """Returns (rows, restore): a row for each example, and a function that restores the tensor.

  - A scalar, such as a batch's mean, becomes the value of each example. So does a single row:
    programs wrote one because a TPU could not send a scalar.
  - Several rows for each example, such as those of its words, become one row. A row for several
    examples, such as those of a user, becomes the row of each of them.
  - Rows in another number, or in a number that the trace does not know, such as the rows of a
    mask, become a string. So does a tensor of unknown rank, such as a result of tf.py_func. If it
    is a scalar, the host gives each example its value.
  """
  if tensor.shape.rank is None:
    return _as_one_string(tensor, batch)
  if tensor.shape.rank == 0:
    return tf.fill([batch], tensor), lambda gathered: gathered
  rows = tensor.shape.as_list()[0]
  if rows == 1:
    return tf.repeat(tensor, batch, 0), lambda gathered: gathered
  if not isinstance(batch, int) or rows == batch:
    return tensor, lambda gathered: gathered
  if rows and batch % rows == 0:
    times = batch // rows
    return tf.repeat(tensor, times, 0), lambda gathered: gathered[::times]
  if rows is None or rows % batch:
    return _as_one_string(tensor, batch)
  shape = tensor.shape[1:].as_list()
  return (
    tf.reshape(tensor, [batch, rows // batch, *shape]),
    lambda gathered: tf.reshape(gathered, [-1, *shape]),
  )


def _as_one_string(tensor: tf.Tensor, batch: Any) -> tuple[tf.Tensor, Callable]:
  """Returns strings, the first with the tensor, and a function that joins the cores' tensors."""
  dtype, shape = tensor.dtype, tensor.shape

  def restore(gathered: tf.Tensor) -> tf.Tensor:
    is_first = tf.not_equal(gathered, "")
    texts = tf.boolean_mask(gathered, is_first)
    if shape.rank is None:
      return _joined(texts, tf.cumsum(tf.cast(is_first, tf.int32)) - 1, dtype)
    of_cores = tf.map_fn(
      lambda one: tf.ensure_shape(tf.io.parse_tensor(one, dtype), shape),
      texts,
      fn_output_signature=tf.RaggedTensorSpec(shape, dtype, ragged_rank=0),
    )
    return of_cores.values

  return _first_of(tf.io.serialize_tensor(tensor), batch), restore


def _joined(texts: tf.Tensor, cores: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
  """Returns the tensors of the cores, joined along their first axis.

  Args:
    texts: each core's tensor as a string.
    cores: the core of each example. If the tensors are scalars, each example gets its core's.
    dtype: the tensors' type.
  """

  def rows(core):
    one = tf.io.parse_tensor(texts[core], dtype)
    examples = tf.math.count_nonzero(tf.equal(cores, core), dtype=tf.int32)
    axes = tf.fill([tf.cast(tf.equal(tf.rank(one), 0), tf.int32)], examples)  # one for a scalar
    return tf.broadcast_to(one, tf.concat([tf.shape(one), axes], 0))

  _, joined = tf.while_loop(
    lambda core, _: core < tf.size(texts),
    lambda core, joined: (core + 1, tf.concat([joined, rows(core)], 0)),
    (1, rows(0)),
    shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)),
  )
  return joined
