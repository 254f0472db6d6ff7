"""Names the leaves of a dataset's elements, and checks their shapes."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.internals import tensorflow_internals
from trainer.settings.kinds import Kind


def check_shapes(
  dataset: tf.data.Dataset, batch_size: int | None, kind: str, static: bool = True
) -> None:
  """Checks that the shapes of a dataset's elements are static.

  In training the batch axis must be static too. Evaluation and prediction pad it.

  Args:
    dataset: the result of `call`.
    batch_size: params["batch_size"].
    kind: "train", "eval" or "predict".
    static: False if shapes may differ from batch to batch.

  Raises:
    InputError: a feature or label has an unusable shape. The message names it and says what to
      change.
  """
  for path, leaf in named_leaves(dataset.element_spec):
    if not isinstance(leaf, tf.TensorSpec):
      raise errors.InputError(
        f"{path} ({kind}) is a {type(leaf).__name__}: make it dense, as with "
        "Dataset.padded_batch or to_tensor."
      )
    shape = leaf.shape
    if shape.rank is None or shape.rank == 0:
      raise errors.InputError(
        f"{path} ({kind}) has shape {shape}: the first axis must be the batch."
      )
    sizes = shape.as_list()
    if static and kind == Kind.TRAIN and sizes[0] is None:
      raise errors.InputError(
        f"{path} has shape {_shown(sizes)}: batch with drop_remainder=True. If a later map loses "
        f"the size, as a layer of Keras may, end it with tf.ensure_shape(x, [{batch_size}, ...])."
      )
    if sizes[0] not in (None, batch_size):
      raise errors.InputError(
        f'{path} ({kind}) has shape {_shown(sizes)}: the batch must be params["batch_size"], '
        f"{batch_size}."
      )
    if static and None in sizes[1:]:
      raise errors.InputError(
        f"{path} ({kind}) has shape {_shown(sizes)}: pad or resize to a known size of each axis "
        "but the batch, or state it by tf.ensure_shape. One CPU or GPU also trains without known "
        "sizes: RunConfig(static_shapes=False)."
      )


def _shown(sizes):
  return f"({', '.join(map(str, sizes))})"


def named_leaves(
  element: tuple, roots: Sequence[str] = ("features", "labels", "sample_weight")
) -> list[tuple[str, Any]]:
  """Lists the leaves of an element with their paths.

  Args:
    element: an element, or an element_spec.
    roots: the names of the element's parts.

  Returns:
    (path, leaf) pairs. Paths look like `features["image"]` and `labels`.
  """
  leaves = []
  for root, part in zip(roots, element, strict=False):
    for path, leaf in _paths(part, root):
      leaves.append((path, leaf))
  return leaves


def static_batch_size(features: Any) -> int | None:
  """Returns the size of the first feature's first axis; None if unknown."""
  shape = tf.nest.flatten(features)[0].shape
  return shape.as_list()[0] if shape.rank else None


def _paths(part, path):
  if part is None or isinstance(part, tensorflow_internals.NoneTensorSpec):
    return
  if isinstance(part, dict):
    for key in sorted(part):  # the order of tf.nest
      yield from _paths(part[key], f'{path}["{key}"]')
  elif isinstance(part, tuple) and hasattr(part, "_fields"):
    for key, value in zip(part._fields, part, strict=True):
      yield from _paths(value, f"{path}.{key}")
  elif isinstance(part, tuple | list):
    for index, value in enumerate(part):
      yield from _paths(value, f"{path}[{index}]")
  else:
    yield path, part
