"""Reads tables from CSV and Parquet files: normalised numbers and dates, and ids of categories.

    run.train_input_fn = @train/tabular.input_fn
    run.eval_input_fn = @test/tabular.input_fn
    tabular.input_fn.schema = {"age": "number", "job": "category", "bought": "label"}
    tabular.input_fn.training_path = "/data/customers/train.csv"
    train/tabular.input_fn.path = "/data/customers/train.csv"
    train/tabular.input_fn.training = True
    test/tabular.input_fn.path = "/data/customers/test.parquet"

The schema names the columns to read, in any order of the file, and their kinds:

    number      less the mean, over the standard deviation; a missing one counts as the mean
    category    an id: 1 and up for the values in the order of the alphabet, 0 for a value that is
                missing or not in the training set. The values are compared as texts, without the
                spaces around them; a whole number is the same in every form, such as 11 and 11.0
    date        a date or time of ISO 8601: seven numbers, see `table_encoder.date_numbers`
    label       what is to be predicted: an integer class or, with `classes`, its name
    target      a number to be predicted, by `regression.spec`; several columns are several targets
    tag         whether the row has a property, 0 or 1 or true or false; several columns are several
                properties, for `multi_label.spec`
    weight      how much an example counts, a number of at least 0; at most one column

Means, deviations and values come from the training set alone. pyarrow reads the columns of the
schema into memory. A CSV file's first line has the columns' names. An export takes the raw columns
of a table, and makes the features itself. An evaluation warns of columns with more missing values
than the training set, and of values that the training set does not have.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import gin
import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from . import file_cache, hosts, in_memory, table_columns, table_encoder
from .table_encoder import Encoder, Statistics

_FEATURES = ("number", "category", "date")
_PREDICTED = ("label", "target", "tag")  # a table has columns of one such kind
KINDS = (*_FEATURES, *_PREDICTED, "weight")
_TEXTS = ("category", "date")  # kinds that a CSV file is read for as texts


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  path: str,
  training_path: str,
  schema: Mapping[str, str],
  classes: Sequence[str] | None = None,
  training: bool = False,
  input_context: tf.distribute.InputContext | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Reads batches of rows.

  Args:
    params: dict with "batch_size".
    path: file, local or gs://, that ends in .csv or .parquet.
    training_path: the file of the training set.
    schema: column → kind, see the module. There is one label, or some targets, or some tags.
    classes: names of the classes; a label is the place of its name in this list. None for integer
      labels.
    training: whether to shuffle and repeat without end.
    input_context: None for one host. Each host reads an even range of the rows.
    start: number of examples that all hosts together have seen; the framework sets it.

  Returns:
    A dataset of ({"numbers": float32 [b, n], "categories": int32 [b, m]}, labels), and weights
    float32 [b] if the schema has a weight. Labels are int32 [b] for a label, float32 [b] for a
    target, [b, k] for several targets, and int32 [b, k] for tags. The columns are in the order of
    the schema; the numbers of dates follow the other numbers. Without a column of a kind there is
    no such feature.

  Raises:
    SettingError: the schema cannot work.
    InputError: reading a file failed, a column is missing, or a value does not fit; the message
      names file, column and row.
  """
  columns = _columns(schema)
  encoder = _encoder(training_path, tuple(schema.items()))
  read = table_columns.read if training else _read_once
  table = read(path, tuple(schema), _names(columns, _TEXTS))
  features, labels = encoder.features(table, path), _predicted(table, columns, classes, path)
  weights = _weights(table, columns["weight"], path)
  first, stop = hosts.even_range(len(labels), *hosts.part_of(input_context))
  dataset = in_memory.batches(
    {name: values[first:stop] for name, values in features.items()},
    labels[first:stop],
    params["batch_size"],
    training=training,
    start=hosts.examples_seen(start, input_context),
    sample_weight=None if weights is None else weights[first:stop],
  )
  if labels.ndim == 1 and labels.dtype == np.int32:  # classes, of the rows of all hosts
    dataset = trainer.mark_labels(dataset, labels)
  return encoder.mark(dataset, table, path, training=training)


@gin.configurable
@trainer.check_settings
def vocabulary_sizes(training_path: str, schema: Mapping[str, str]) -> tuple[int, ...]:
  """Returns the number of ids of each category, in the order of the schema.

  Args:
    training_path: see `input_fn`.
    schema: see `input_fn`.
  """
  return _encoder(training_path, tuple(schema.items())).vocabulary_sizes


@gin.configurable
@trainer.check_settings
def target_statistics(training_path: str, schema: Mapping[str, str]) -> Statistics:
  """Returns (means, standard deviations) of the targets, in the order of the schema.

  In gin: `regression.spec.statistics = @tabular.target_statistics()`.

  Args:
    training_path: see `input_fn`.
    schema: see `input_fn`.

  Raises:
    SettingError: the schema has no target.
  """
  columns = _columns(schema)
  if not columns["target"]:
    raise errors.SettingError('tabular.target_statistics.schema has no column of kind "target".')
  table = _read_once(training_path, tuple(columns["target"]))
  return table_encoder.statistics_of(_targets(table, columns["target"], training_path))


# Each evaluation calls input_fn again, and a training only once: its table would stay in memory
# beside the features.
_read_once = file_cache.until_changed(maxsize=4)(table_columns.read)


@file_cache.until_changed(maxsize=8)
def _encoder(training_path, schema):
  columns = _columns(dict(schema))
  table = table_columns.read(training_path, _names(columns, _FEATURES), _names(columns, _TEXTS))
  return Encoder.fit(
    table, columns["number"], columns["category"], columns["date"], source=training_path
  )


def _names(columns, kinds):
  """Returns the columns of some kinds."""
  return tuple(name for kind in kinds for name in columns[kind])


def _columns(schema):
  """Returns kind → its columns, in the order of the schema."""
  found: dict[str, list[str]] = {kind: [] for kind in KINDS}
  for column, kind in schema.items():
    if kind not in KINDS:
      raise errors.SettingError(
        f"tabular.input_fn.schema[{column!r}] is {kind!r}: expected one of {', '.join(KINDS)}."
      )
    found[kind].append(column)
  features, weights = _names(found, _FEATURES), found["weight"]
  predicted = [kind for kind in _PREDICTED if found[kind]]
  if len(predicted) != 1 or len(found["label"]) > 1 or not features or len(weights) > 1:
    counted = ", ".join(f"{len(names)} of kind {kind}" for kind, names in found.items() if names)
    raise errors.SettingError(
      f"tabular.input_fn.schema has these columns: {counted or 'none'}. Expected one label (or "
      "some targets, or some tags), a number, category or date, and at most one weight."
    )
  return found


def _predicted(table, columns, classes, path):
  """Returns the values of the label, targets or tags, see `input_fn`."""
  if columns["target"]:
    targets = _targets(table, columns["target"], path).astype(np.float32)
    return targets[:, 0] if len(columns["target"]) == 1 else targets
  if columns["tag"]:
    return np.stack([_tags(table, column, path) for column in columns["tag"]], -1)
  return _labels(table, columns["label"][0], classes, path)


def _targets(table, columns, path):
  """Returns the targets, float64 [n, columns], without missing values."""
  targets = np.stack([table_columns.numbers(table, column, path) for column in columns], -1)
  for row, place in np.argwhere(~np.isfinite(targets))[:1]:
    raise errors.InputError(
      f"{path}, row {row + 1}: the target {columns[place]!r} is {targets[row, place]}; expected a "
      "finite number. Leave out the rows without a target."
    )
  return targets


def _tags(table, column, path):
  values = table_columns.numbers(table, column, path)
  wrong = np.flatnonzero((values != 0) & (values != 1))
  if wrong.size:
    raise errors.InputError(
      f"{path}, row {wrong[0] + 1}: the tag {column!r} is {table[column][wrong[0]].as_py()!r}; "
      "expected 0 or 1, or true or false."
    )
  return values.astype(np.int32)


def _labels(table, column, classes, path):
  if classes is None:
    values = table_columns.numbers(table, column, path)
    # A column of identities, such as customers' numbers, may exceed an int32.
    fits = (values >= 0) & (values == np.floor(values)) & (values <= in_memory.LARGEST_LABEL)
    wrong = np.flatnonzero(~fits)
    expected = f"an integer of at least 0, {in_memory.LARGEST_LABEL:,} at most"
    expected += " (or set tabular.input_fn.classes)"
    labels = np.where(fits, values, 0)
  else:
    places, texts = table_columns.encoded(table[column])
    numbers = {name: number for number, name in enumerate(classes)}
    labels = np.array([*(numbers.get(text, -1) for text in texts), -1])[places]
    wrong, expected = np.flatnonzero(labels < 0), f"one of {', '.join(classes)}"
  if wrong.size:
    row, value = wrong[0], table[column][wrong[0]].as_py()
    raise errors.InputError(
      f"{path}, row {row + 1}: the label {column!r} is {value!r}; expected {expected}."
    )
  return labels.astype(np.int32)


def _weights(table, columns, source):
  """Returns the rows' weights, or None without a weight column."""
  for column in columns:
    weights = table_columns.numbers(table, column, source)
    wrong = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))
    if wrong.size:
      value = table[column][wrong[0]].as_py()
      raise errors.InputError(
        f"{source}, row {wrong[0] + 1}: the weight {column!r} is {value!r}; expected a number of "
        "at least 0."
      )
    return weights
  return None
