"""Lets an input_fn say how its features are decoded from bytes, such as JPEG files.

    def decode(encoded):                     # a string scalar, such as a JPEG file's content
      return ...                             # the feature of one example, as the pipeline makes it

    return trainer.mark_decodable(dataset, {"image": decode})

A SavedModel that is exported with such an input_fn has signatures that take these bytes. Only the
marked dataset itself has the mark. A dataset that `map` or others make from it has none: its
features may have changed, and the decoders would not fit them.
"""

import weakref
from collections.abc import Callable, Mapping

import tensorflow as tf

from trainer.settings import setting_types

# dataset → {feature: decoder}
_decoders: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def mark_decodable(dataset: tf.data.Dataset, decoders: Mapping[str, Callable]) -> tf.data.Dataset:
  """Notes how features of a dataset are decoded from bytes.

  Args:
    dataset: the dataset that an input_fn returns.
    decoders: feature → function of a string scalar that returns the feature of one example, with
      the shape and dtype that it has in the dataset. The function uses TensorFlow operations only,
      and no random numbers.

  Returns:
    The same dataset.

  Raises:
    SettingError: decoders is not a dict of names and functions.
  """
  setting_types.check(decoders, Mapping[str, Callable], "mark_decodable: decoders")
  _decoders[dataset] = dict(decoders)
  return dataset


def decoders_of(dataset: tf.data.Dataset) -> dict[str, Callable]:
  """Returns the decoders of a dataset, feature → function; {} if it is not marked."""
  return dict(_decoders.get(dataset, {}))


def keep_mark(dataset: tf.data.Dataset, changed: tf.data.Dataset) -> tf.data.Dataset:
  """Copies the mark of a dataset to another one with the same features.

  Args:
    dataset: the dataset that may be marked.
    changed: a dataset made from it.

  Returns:
    `changed`.
  """
  if dataset in _decoders and changed is not dataset:
    _decoders[changed] = _decoders[dataset]
  return changed
