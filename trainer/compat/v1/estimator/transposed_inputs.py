"""Features whose batch is the last axis: `transpose_input` of programs for TPUs.

An input_fn gives images as [height, width, channels, batch], and the model_fn transposes them
again, which spared a TPU an expensive copy. Octet cuts and pads batches by their first axis, so
that such features go as rows between the dataset and the model_fn.
"""

from typing import Any, NamedTuple

import tensorflow as tf


class Rows(NamedTuple):
  """A feature with its batch in front.

  Attributes:
    rows: [batch, ...]; the program has it as [..., batch].
  """

  rows: tf.Tensor


def as_rows(dataset: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
  """The dataset, with Rows in the place of each tensor whose batch is its last axis.

  Args:
    batch_size: by which the axis is known.
  """

  def is_transposed(leaf: Any) -> bool:
    shape = leaf.shape.as_list() if leaf.shape.rank else []
    return len(shape) > 1 and shape[0] not in (None, batch_size) and shape[-1] == batch_size

  if not any(is_transposed(leaf) for leaf in tf.nest.flatten(dataset.element_spec)):
    return dataset
  is_pair = isinstance(dataset.element_spec, tuple)

  def convert(*element: Any) -> Any:
    return tf.nest.map_structure(
      lambda leaf: Rows(_turned(leaf, 1)) if is_transposed(leaf) else leaf,
      element if is_pair else element[0],
    )

  return dataset.map(convert, num_parallel_calls=tf.data.AUTOTUNE)


def as_given(structure: Any) -> Any:
  """A structure of tensors, with those of the program in the place of Rows."""
  if isinstance(structure, Rows):
    return _turned(structure.rows, -1)
  if isinstance(structure, dict):
    return {name: as_given(value) for name, value in structure.items()}
  if isinstance(structure, list | tuple) and not hasattr(structure, "_fields"):
    return type(structure)(as_given(value) for value in structure)
  return structure


def _turned(tensor: tf.Tensor, by: int) -> tf.Tensor:
  """The tensor with its axes moved to the right, the last ones to the front."""
  axes = list(range(tensor.shape.rank))
  return tf.transpose(tensor, axes[-by:] + axes[:-by])
