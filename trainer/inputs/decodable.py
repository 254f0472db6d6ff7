"""What an input pipeline says of itself: how a feature is made of the bytes that people have.

    def decode(encoded):                     # a string scalar, as of a JPEG file
      return ...                             # the feature of one example, as the pipeline makes it

    return trainer.mark_decodable(dataset, {"image": decode})

A SavedModel that is exported with such a pipeline has signatures that take these bytes. The mark is
the dataset's own: whatever is made of the dataset by `map` and the like has none, so that no
signature is built from a step that is not the last one.
"""

import weakref
from collections.abc import Callable, Mapping

import tensorflow as tf

from trainer import errors

_decoders = weakref.WeakKeyDictionary()  # dataset → dict of feature → function


def mark_decodable(dataset: tf.data.Dataset, decoders: Mapping[str, Callable]) -> tf.data.Dataset:
  """Says how features of a dataset are made of bytes.

  Args:
    dataset: what an input_fn returns.
    decoders: dict of feature → function of a string scalar that returns the feature of one
      example, in graph operations alone and without random numbers. Its shape and dtype are those
      of the dataset.

  Returns:
    The dataset.

  Raises:
    SettingError: decoders are no dict of names and functions.
  """
  check_decoders(decoders, "mark_decodable")
  _decoders[dataset] = dict(decoders)
  return dataset


def check_decoders(decoders: object, where: str) -> None:
  """SettingError unless decoders are a dict of names and functions."""
  if not isinstance(decoders, Mapping) or not all(
    isinstance(name, str) and callable(function) for name, function in decoders.items()
  ):
    raise errors.SettingError(
      f"{where}: decoders are {decoders!r}: expected a dict of a feature's name and a function "
      "of its bytes."
    )


def decoders_of(dataset: tf.data.Dataset) -> dict[str, Callable]:
  """What `mark_decodable` was told of a dataset; empty where it was told nothing."""
  return dict(_decoders.get(dataset, {}))


def keep_mark(dataset: tf.data.Dataset, changed: tf.data.Dataset) -> tf.data.Dataset:
  """`changed`, with the mark of a dataset whose features it has unchanged."""
  if dataset in _decoders and changed is not dataset:
    _decoders[changed] = _decoders[dataset]
  return changed
