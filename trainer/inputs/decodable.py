"""Lets an input_fn declare how its features come from the user's files, columns or texts.

    def decode(encoded):                     # a string scalar, such as a JPEG file's content
      return ...                             # the feature of one example, as the pipeline makes it

    return trainer.mark_decodable(dataset, {"image": decode})

    def to_features(columns):                # {"age": float64 [n], "job": string [n]}
      return ...                             # the features of n examples, as the pipeline has them

    return trainer.mark_raw(dataset, {"age": ages, "job": jobs}, to_features, optional=["age"])

A SavedModel of such an input_fn has signatures that take these files, columns or texts. Only the
marked dataset itself has the mark. A dataset that `map` or others make from it has no mark: its
features may have changed, and the functions would not fit them.
"""

import dataclasses
import math
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.settings import setting_types

_KEPT = 16  # Examples of the user's data, to check an export with.


@dataclasses.dataclass(frozen=True)
class Raw:
  """The user's values of examples, and their conversion to features.

  Attributes:
    examples: name → values of some examples, [n, ...]: float64, int64 or bytes (dtype object).
    to_features: function of name → tensor, for a batch, that returns the features.
    optional: names whose value may be missing: then it is NaN, or the empty string.
    rows: name → values of all examples, in the order of the dataset; {} if not known.
    gaps: name → shares of the examples without a value that the training knows.
    known: name → the texts that the training knows; no entry for columns of any text.
  """

  examples: Mapping[str, np.ndarray]
  to_features: Callable[[dict[str, tf.Tensor]], Any]
  optional: frozenset[str]
  rows: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  gaps: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
  known: Mapping[str, Collection[str]] = dataclasses.field(default_factory=dict)

  def describe_gaps(self) -> tuple[str, bool]:
    """Returns the gaps as a text, or ""; and whether they exceed the training set's."""
    count = len(next(iter(self.rows.values()), ()))
    texts, exceed = [], False
    for name, shares in self.gaps.items():
      unknown, missing = shares.get("unknown", 0), shares["missing"]
      known = shares["missing in training"]
      parts = [f"{unknown:.1%} unknown"] if unknown else []
      parts += [f"{missing:.1%} missing ({known:.1%} in training)"] if missing else []
      texts += [f"{name} {', '.join(parts)}"] if parts else []
      # Three standard errors: two parts of one table differ by chance.
      chance = 3 * math.sqrt(known * (1 - known) / count) if count else 0
      exceed |= unknown > 0 or missing > known + chance
    return "; ".join(texts), exceed


# dataset → {feature: decoder}, or Raw
_marks: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def mark_decodable(dataset: tf.data.Dataset, decoders: Mapping[str, Callable]) -> tf.data.Dataset:
  """Declares the decoders of a dataset's features from bytes.

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
  _marks[dataset] = dict(decoders)
  return dataset


def mark_raw(
  dataset: tf.data.Dataset,
  examples: Mapping[str, Any],
  to_features: Callable[[dict[str, tf.Tensor]], Any],
  optional: Collection[str] = (),
  rows: Mapping[str, Any] | None = None,
  gaps: Mapping[str, Mapping[str, float]] | None = None,
  known: Mapping[str, Collection[str]] | None = None,
) -> tf.data.Dataset:
  """Declares how a dataset's features come from the user's values, such as columns of a table.

  Args:
    dataset: the dataset that an input_fn returns.
    examples: name → values of some examples, [n, ...]: numbers or texts. They give the names, types
      and shapes of an export's input, and the first of them check the export. Numbers become
      float64 or int64.
    to_features: function of name → tensor, for a batch, that returns the features of the batch with
      the structure, shapes and dtypes that they have in the dataset. The function uses TensorFlow
      operations only, and no random numbers.
    optional: names whose value may be missing. A missing number is NaN, a missing text is "".
    rows: name → values of all examples [n], in the order of the dataset, of numpy or pyarrow. An
      evaluation report shows them for the worst examples, and its slices may name them.
    gaps: name → {"missing": share of the examples without a value, "missing in training": the same
      share of the training set, "unknown": share of the examples with a value that the training set
      does not have}. The last may be absent. An evaluation, its report and the model card have
      them; the evaluation warns where they exceed the training set's.
    known: name → the texts that the training set has. Predictions for files warn of others. Spaces
      around a text do not count, nor does the form of a whole number: 3 or 3.0.

  Returns:
    The same dataset.

  Raises:
    SettingError: an argument is unusable.
  """
  if not examples or not callable(to_features) or not set(optional) <= set(examples):
    raise errors.SettingError(
      "mark_raw: expected examples by name, a function of them, and optional names among "
      f"{', '.join(examples) or 'none'}; got {to_features!r} and {optional!r}."
    )
  arrays = {name: _array(name, values, name in optional) for name, values in examples.items()}
  _marks[dataset] = Raw(
    arrays, to_features, frozenset(optional), rows or {}, gaps or {}, known or {}
  )
  return dataset


def _array(name, values, optional):
  """Returns values as float64, int64, or bytes. What may be NaN is float64."""
  array = np.asarray(values[:_KEPT] if hasattr(values, "__getitem__") else values)
  kind = array.dtype.kind
  if array.ndim and array.size and kind in "biuf":
    return array.astype(np.float64 if optional or kind == "f" else np.int64)
  if not array.ndim or not array.size or kind not in "OSU":
    raise errors.SettingError(
      f"mark_raw: examples[{name!r}] has the shape {list(array.shape)} and the type {array.dtype}: "
      "expected numbers or texts of at least one example."
    )
  texts = [tf.compat.as_bytes(value) for value in array.ravel()]
  return np.array(texts, object).reshape(array.shape)


def decoders_of(dataset: tf.data.Dataset) -> dict[str, Callable]:
  """Returns a dataset's decoders, feature → function; {} without a mark."""
  mark = _marks.get(dataset)
  return {} if mark is None or isinstance(mark, Raw) else dict(mark)


def raw_of(dataset: tf.data.Dataset) -> Raw | None:
  """Returns the user's values of a dataset; None without a mark."""
  mark = _marks.get(dataset)
  return mark if isinstance(mark, Raw) else None


def keep_mark(dataset: tf.data.Dataset, changed: tf.data.Dataset) -> tf.data.Dataset:
  """Copies the mark of a dataset to `changed`, a dataset with the same features; returns it."""
  if dataset in _marks and changed is not dataset:
    _marks[changed] = _marks[dataset]
  return changed


def keep_mark_without(
  dataset: tf.data.Dataset, changed: tf.data.Dataset, feature: str
) -> tf.data.Dataset:
  """Does the same as `keep_mark` for a dataset that has lost one of the features."""
  mark = _marks.get(dataset)
  if isinstance(mark, Raw):

    def to_features(columns):
      return {key: value for key, value in mark.to_features(columns).items() if key != feature}

    _marks[changed] = dataclasses.replace(mark, to_features=to_features)
  elif mark is not None:
    _marks[changed] = {name: decoder for name, decoder in mark.items() if name != feature}
  return changed
