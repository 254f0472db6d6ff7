"""Features with another first axis than the batch, such as `transpose_input` of programs for TPUs.

With `transpose_input`, an input_fn returns images as [height, width, channels, batch] and the
model_fn transposes them again: this spared a TPU an expensive copy. Other programs return several
rows for each example, for example 8 labelled and 24 unlabelled images in a step. Octet cuts and
pads batches along the first axis. So such features travel from the dataset to the model_fn with one
row for each example. One core cuts nothing: it may take each batch whole.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

_nest = tf.__internal__.nest


class Rows(NamedTuple):
  """A feature with the batch as its first axis.

  Attributes:
    rows: [batch, ...]; the program has it as [..., batch].
  """

  rows: tf.Tensor

  def as_given(self) -> tf.Tensor:
    return _turned(self.rows, -1)


class Groups(NamedTuple):
  """A feature with several rows for each example.

  Attributes:
    rows: [batch, rows of an example, ...]; the program has it as [batch * rows, ...].
  """

  rows: tf.Tensor

  def as_given(self) -> tf.Tensor:
    batch, rows, *others = self.rows.shape.as_list()
    # Without a static batch, the reshape infers it.
    return tf.reshape(self.rows, [batch * rows if batch else -1, *others])


class Whole(NamedTuple):
  """A tensor of a batch that one core takes whole, with or without a batch axis.

  Attributes:
    rows: [1, ...]; the program has it as [...].
  """

  rows: tf.Tensor

  def as_given(self) -> tf.Tensor:
    return self.rows[0]


def as_whole(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Replaces each tensor of a dataset with Whole: every batch is one example to Octet."""

  def whole(leaf: tf.Tensor) -> Whole:
    return Whole(leaf[tf.newaxis])

  return converted(dataset, lambda leaf: True, whole)


def is_whole(structure: Any) -> bool:
  """Returns whether a batch's tensors are Whole."""
  return any(isinstance(part, Whole) for part in _nest.flatten_up_to(_parts(structure), structure))


def without_rows(element_spec: Any) -> Any:
  """Returns the spec of a tensor whose first axis is not the batch of the others, or None."""
  leaves = tf.nest.flatten(element_spec)
  if not all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
    return None
  # Lists: a program may have turned TensorFlow's new shapes off.
  sizes = [leaf.shape.as_list()[0] if leaf.shape.rank else None for leaf in leaves]
  known = next((size for size in sizes if size is not None), None)
  for leaf, size in zip(leaves, sizes, strict=True):
    if leaf.shape.rank == 0 or size not in (None, known):
      return leaf
  return None


def as_groups(dataset: tf.data.Dataset, batch_size: int | None = None) -> tf.data.Dataset:
  """Replaces each tensor of a dataset that has several rows for each example with Groups.

  Args:
    batch_size: the number of examples; None: the smallest number of rows of a feature.
  """
  leaves = tf.nest.flatten(dataset.element_spec)
  sizes = [leaf.shape[0] if leaf.shape.rank else None for leaf in leaves]
  if batch_size is None and None in sizes:  # a last batch may be smaller
    return dataset
  examples = batch_size or min(sizes)
  if examples not in sizes:  # the program's own batch size; Octet cuts such batches
    return dataset

  def has_groups(leaf: Any) -> bool:
    rows = leaf.shape[0] if isinstance(leaf, tf.TensorSpec | tf.Tensor) and leaf.shape.rank else 0
    return bool(rows) and rows > examples and rows % examples == 0

  def grouped(leaf: tf.Tensor) -> Groups:
    _, *others = leaf.shape.as_list()
    return Groups(tf.reshape(leaf, [examples, leaf.shape[0] // examples, *others]))

  return converted(dataset, has_groups, grouped)


def as_rows(dataset: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
  """Replaces each tensor of a dataset that has the batch as its last axis with Rows.

  Args:
    batch_size: the size that identifies the batch axis.
  """

  def is_transposed(leaf: Any) -> bool:
    shape = leaf.shape.as_list() if leaf.shape.rank else []
    # Two axes of the batch's size are no evidence: then the first axis is the batch.
    return len(shape) > 1 and shape[0] not in (None, batch_size) and shape[-1] == batch_size

  return converted(dataset, is_transposed, lambda leaf: Rows(_turned(leaf, 1)))


def converted(
  dataset: tf.data.Dataset, is_meant: Callable[[Any], bool], convert: Callable[[Any], Any]
) -> tf.data.Dataset:
  """Converts some tensors of a dataset.

  Args:
    is_meant: function of a tensor, or of its spec.
    convert: function of such a tensor.
  """
  # A map over each element costs time in every step: only datasets with such tensors get one.
  if not any(is_meant(leaf) for leaf in tf.nest.flatten(dataset.element_spec)):
    return dataset
  is_pair = isinstance(dataset.element_spec, tuple)

  def convert_element(*element: Any) -> Any:
    return tf.nest.map_structure(
      lambda leaf: convert(leaf) if is_meant(leaf) else leaf, element if is_pair else element[0]
    )

  return dataset.map(convert_element, num_parallel_calls=tf.data.AUTOTUNE)


def as_given(structure: Any) -> Any:
  """Replaces Rows, Groups, SparseRows and SparseTexts with the program's tensors."""
  # As TensorFlow, makes each dict anew, of its own class: a model_fn may change it.
  return _nest.map_structure_up_to(
    _parts(structure),
    lambda part: part.as_given() if hasattr(part, "as_given") else part,
    structure,
  )


def _parts(structure: Any) -> Any:
  """Returns the structure down to Rows, Groups and the like, without their tensors."""
  return _nest.get_traverse_shallow_structure(lambda part: not hasattr(part, "as_given"), structure)


def _turned(tensor: tf.Tensor, by: int) -> tf.Tensor:
  """Moves the tensor's axes to the right, the last axes to the front."""
  axes = list(range(tensor.shape.rank))
  return tf.transpose(tensor, axes[-by:] + axes[:-by])
