"""SparseTensors of an input_fn, as dense rows between the dataset and the model_fn.

The cores share a batch by its rows, and Octet can only cut dense tensors. So a sparse [batch,
width] travels as two dense tensors, the values and the columns of each row, padded to the longest
row. The model_fn gets a SparseTensor again. Several cores need known shapes: then rows have padding
up to the width. Rows of an unknown width travel as strings; XLA devices refuse these.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from trainer import errors
from trainer.compat.estimator import batch_axes


class SparseRows(NamedTuple):
  """A sparse [batch, width] as dense tensors.

  Attributes:
    values: [batch, longest], padded.
    columns: int64 [batch, longest], -1 for no value.
    width: int64 [batch], the same for all rows.
  """

  values: tf.Tensor
  columns: tf.Tensor
  width: tf.Tensor

  def as_given(self) -> tf.SparseTensor:
    # Octet fills a core's batch with rows of zeros, in the width too.
    places = tf.where((self.columns >= 0) & (self.width > 0)[:, tf.newaxis])
    columns = tf.gather_nd(self.columns, places)
    # The width is a property of the set, not of a batch's longest row: each row carries it.
    shape = [tf.shape(self.columns, tf.int64)[0], tf.reduce_max(self.width)]
    return tf.SparseTensor(
      tf.stack([places[:, 0], columns], 1), tf.gather_nd(self.values, places), tf.stack(shape)
    )


class SparseTexts(NamedTuple):
  """A sparse [batch, ...] of unknown shape as dense tensors of known shapes.

  Attributes:
    rows: string [batch, 3], each row in the form of tf.io.serialize_many_sparse; "" for padding.
    like: [batch, 0, ...], of the dtype and rank.
  """

  rows: tf.Tensor
  like: tf.Tensor

  def as_given(self) -> tf.SparseTensor:
    dtype, rank = self.like.dtype, self.like.shape.rank
    # Octet fills a core's batch with rows of "", which is no serialized sparse row.
    nothing = tf.sparse.from_dense(tf.zeros([1, *[0] * (rank - 1)], dtype))
    rows = tf.where(tf.equal(self.rows, ""), tf.io.serialize_many_sparse(nothing), self.rows)
    return tf.io.deserialize_many_sparse(rows, dtype, rank)


def as_rows(dataset: tf.data.Dataset, to_width: bool, as_text: bool = False) -> tf.data.Dataset:
  """Replaces each SparseTensor of rank 2 in a dataset with SparseRows.

  Args:
    to_width: whether to pad rows to the width.
    as_text: whether SparseTensors of unknown width then become SparseTexts.

  Raises:
    InputError: a width is unknown but needed.
  """
  if to_width and not as_text:
    _require_widths(dataset.element_spec)
  convert = functools.partial(_rows_of, to_width=to_width, as_text=as_text)
  return batch_axes.converted(dataset, _is_sparse, convert)


def received_as_rows(serving_input_receiver_fn: Callable) -> Callable:
  """Wraps a serving_input_receiver_fn so that it returns SparseRows, as a dataset does."""

  @functools.wraps(serving_input_receiver_fn)
  def receive() -> Any:
    receiver = serving_input_receiver_fn()
    is_pair = isinstance(receiver, tuple)
    features = receiver[0] if is_pair else receiver.features
    if not any(_is_sparse(leaf) for leaf in tf.nest.flatten(features)):
      return receiver
    received = receiver[1] if is_pair else receiver.receiver_tensors
    return tf.nest.map_structure(_rows_of, features), received

  return receive


def rebatched(dataset: tf.data.Dataset, size: int, drop_remainder: bool) -> tf.data.Dataset:
  """Returns batches of another size, with SparseRows if the dataset has them."""
  if not _has_rows(dataset.element_spec):
    return dataset.rebatch(size, drop_remainder=drop_remainder)
  # rebatch joins tensors of equal widths only; each batch here has the width of its longest row.
  return dataset.unbatch().padded_batch(
    size, padding_values=_padding(dataset.element_spec), drop_remainder=drop_remainder
  )


def _is_sparse(leaf: Any) -> bool:
  return isinstance(leaf, tf.SparseTensor | tf.SparseTensorSpec) and leaf.shape.rank == 2


def _require_widths(spec: Any) -> None:
  features = spec[0] if isinstance(spec, tuple) else spec
  for name, leaf in features.items() if isinstance(features, dict) else [("", features)]:
    if _is_sparse(leaf) and leaf.shape[1] is None:
      raise errors.InputError(
        f"The input_fn returns a SparseTensor {name} of shape {leaf.shape}, but XLA devices "
        "need its width: give it a known dense_shape, or parse it as a dense feature."
      )


def _rows_of(leaf: Any, to_width: bool = False, as_text: bool = False) -> Any:
  if not _is_sparse(leaf):
    return leaf
  if as_text and leaf.shape[1] is None:
    return _texts_of(leaf)
  batch, longest = leaf.shape[0], leaf.shape[1] if to_width else None

  def padded(values: tf.Tensor, default: Any) -> tf.Tensor:
    # Indices are sorted by rows, so their first column has the row of each value.
    ragged = tf.RaggedTensor.from_value_rowids(
      values, leaf.indices[:, 0], nrows=leaf.dense_shape[0], validate=False
    )
    # to_tensor forgets the static shape that the cores need.
    rows = ragged.to_tensor(default, shape=[None, longest])
    rows.set_shape([batch, longest])
    return rows

  width = tf.fill(leaf.dense_shape[:1], leaf.dense_shape[1])
  width.set_shape([batch])
  return SparseRows(padded(leaf.values, None), padded(leaf.indices[:, 1], -1), width)


def _texts_of(sparse: tf.SparseTensor) -> SparseTexts:
  rows = tf.io.serialize_many_sparse(sparse)
  rows.set_shape([sparse.shape[0], 3])
  like = tf.zeros([tf.shape(rows)[0], *[0] * (sparse.shape.rank - 1)], sparse.dtype)
  like.set_shape([sparse.shape[0], *like.shape[1:]])
  return SparseTexts(rows, like)


def _has_rows(spec: Any) -> bool:
  if isinstance(spec, SparseRows):
    return True
  parts = (
    spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list | tuple) else ()
  )
  return any(_has_rows(part) for part in parts)


def _padding(spec: Any) -> Any:
  """Returns padded_batch's padding: -1 for columns, None (zeros) for the rest."""
  if isinstance(spec, SparseRows):
    return SparseRows(None, tf.constant(-1, tf.int64), None)
  if isinstance(spec, dict):
    return {name: _padding(part) for name, part in spec.items()}
  if isinstance(spec, list | tuple):
    return type(spec)(_padding(part) for part in spec)
  return None
