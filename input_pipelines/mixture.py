"""Mixes several data sets in a fixed pattern, with given shares.

    run.train_input_fn = @mixture.input_fn
    mixture.input_fn.parts = [@own/image_folder.input_fn, @public/tfds_images.input_fn]
    mixture.input_fn.weights = [1, 3]
    image_folder.input_fn.training = True
    tfds_images.input_fn.training = True

The pattern selects the set for each place of the training. The sets are spread evenly and the
pattern repeats, so the step determines each set's number of examples so far. A resumed training
starts each set at its own place, and batches are the same on any number of cores.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import gin
import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from . import hosts

_PERIOD = 1000  # examples in one pattern


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  parts: Sequence[Callable[..., tf.data.Dataset]],
  weights: Sequence[float],
  input_context: tf.distribute.InputContext | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Mixes the batches of input_fns, for training.

  Args:
    params: dict with "batch_size"; the parts get it too.
    parts: input_fns of endless batches of the same form. A batch must depend on the examples' place
      in the training, not on the batch size. All shipped input_fns do.
    weights: for each part, at least 0, its share of the examples. Only the ratios count. Shares are
      rounded to thousandths; a weight above 0 gets one of 1,000 examples at least.
    input_context: None for one host.
    start: number of examples that all hosts together have seen; the framework sets it.

  Returns:
    A dataset of batches, of the form of the parts' batches.

  Raises:
    SettingError: the weights do not fit the parts, are negative, or are all 0; or the parts end, or
      their batches differ in form.
    InputError: a part has no example.
  """
  pattern = _pattern(weights, parts)
  _, count = hosts.part_of(input_context)
  seen = hosts.examples_seen(start, input_context)
  datasets: list[tf.data.Dataset] = []
  numbers: dict[int, int] = {}
  for number, part in enumerate(parts):
    own = pattern == number
    if not own.any():  # never reads a part of weight 0
      continue
    numbers[number] = len(datasets)
    periods, rest = divmod(seen, _PERIOD)
    begin = periods * int(own.sum()) + int(own[:rest].sum())
    datasets.append(_examples(part, number, params, input_context, begin, count))
  _require_same_form(datasets, list(numbers))
  order = tf.constant([numbers[number] for number in pattern], tf.int64)
  choices = tf.data.Dataset.from_tensor_slices(order).repeat().skip(seen % _PERIOD)
  return (
    tf.data.Dataset.choose_from_datasets(datasets, choices, stop_on_empty_dataset=True)
    .batch(params["batch_size"], drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
  )


def _pattern(weights, parts):
  """Returns the number of the part at each place of a period: int64 [_PERIOD]."""
  if len(weights) != len(parts) or not parts:
    raise errors.SettingError(
      f"mixture.input_fn.weights has {len(weights)} numbers for {len(parts)} parts: expected one "
      "for each part of mixture.input_fn.parts."
    )
  if not all(weight >= 0 and math.isfinite(weight) for weight in weights) or not sum(weights) > 0:
    raise errors.SettingError(
      f"mixture.input_fn.weights is {list(weights)}: expected numbers of at least 0, not all 0."
    )
  if len(parts) > _PERIOD:
    raise errors.SettingError(
      f"mixture.input_fn.parts has {len(parts)} input_fns: expected {_PERIOD} at most."
    )
  shares = np.asarray(weights, np.float64) / sum(weights)
  counts = np.where(shares > 0, np.maximum(np.floor(shares * _PERIOD), 1), 0)
  # Remaining or surplus places go to the parts furthest from their shares.
  while counts.sum() != _PERIOD:
    step = np.sign(_PERIOD - counts.sum())
    missing = step * (shares * _PERIOD - counts)
    counts[np.argmax(np.where((shares > 0) & (counts + step >= 1), missing, -np.inf))] += step
  # Example i of n of a part belongs at the place (i + 0.5) / n of the period.
  wanted = np.concatenate([(np.arange(n) + 0.5) / n for n in counts.astype(int) if n])
  owners = np.repeat(np.arange(len(parts)), counts.astype(int))
  return owners[np.argsort(wanted, kind="stable")]


def _examples(part, number, params, input_context, begin, count):
  """Returns a part's single examples, from place `begin` of each of `count` hosts on."""
  taken = inspect.signature(part).parameters
  given: dict[str, Any] = {"input_context": input_context, "start": begin * count}
  dataset = part(params=dict(params), **{key: given[key] for key in given if key in taken})
  batches = int(dataset.cardinality())
  if batches == 0:
    raise errors.InputError(f"{_name(number)} has no example.")
  if batches > 0:
    raise errors.SettingError(
      f"{_name(number)} ends after {batches} batches: expected an endless dataset, such as with "
      "training = True."
    )
  dataset = dataset.unbatch()
  return dataset if "start" in taken else dataset.skip(begin)


def _require_same_form(datasets, numbers):
  forms = [dataset.element_spec for dataset in datasets]
  for number, form in zip(numbers, forms, strict=True):
    if form != forms[0]:
      raise errors.SettingError(
        f"The examples of {_name(numbers[0])} are {forms[0]}, the examples of {_name(number)} are "
        f"{form}: expected the same names, shapes and types."
      )


def _name(number):
  return f"mixture.input_fn.parts[{number}]"
