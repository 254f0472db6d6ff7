"""Reads tables from CSV and Parquet files: normalised numbers, and ids of categories.

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
                missing or not in the training set; the values are compared as texts
    label       what is to be predicted: an integer class or, with `classes`, its name
    target      a number to be predicted, by `regression.spec`; several columns are several targets
    tag         whether the row has a property, 0 or 1 or true or false; several columns are several
                properties, for `multi_label.spec`
    weight      how much an example counts, a number of at least 0; at most one column

Means, deviations and values come from the training set alone. pyarrow reads a whole table into
memory. A CSV file's first line has the columns' names. An export takes the raw columns of a table,
and makes the features itself.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import gin
import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from . import hosts, in_memory

KINDS = ("number", "category", "label", "target", "tag", "weight")
_PREDICTED = ("label", "target", "tag")  # a table has columns of one such kind

Table = dict[str, np.ndarray]  # column → values [n]
Statistics = tuple[tuple[float, ...], tuple[float, ...]]  # means, standard deviations

_SHOWN = 16  # rows that check an export


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
    the schema. Without a column of a kind there is no such feature.

  Raises:
    SettingError: the schema cannot work.
    InputError: reading a file failed, a column is missing, or a value does not fit; the message
      names file, column and row.
  """
  columns = _columns(schema)
  encoder = _encoder(training_path, columns)
  table = read(path, tuple(schema), tuple(columns["category"]))
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
  return encoder.mark(dataset, table, path)


@gin.configurable
@trainer.check_settings
def vocabulary_sizes(training_path: str, schema: Mapping[str, str]) -> tuple[int, ...]:
  """Returns the number of ids of each category, in the order of the schema.

  Args:
    training_path: see `input_fn`.
    schema: see `input_fn`.
  """
  return _encoder(training_path, _columns(schema)).vocabulary_sizes


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
  table = read(training_path, tuple(columns["target"]))
  values = _targets(table, columns["target"], training_path)
  deviations = values.std(0)
  deviations[deviations == 0] = 1.0
  return tuple(values.mean(0).tolist()), tuple(deviations.tolist())


@dataclasses.dataclass(frozen=True)
class Encoder:
  """Makes features from the columns of a table.

  Attributes:
    statistics: column of numbers → (mean, standard deviation).
    vocabularies: column of categories → its values, with the ids 1, 2, ...
  """

  statistics: Mapping[str, tuple[float, float]]
  vocabularies: Mapping[str, tuple[str, ...]]

  @classmethod
  def fit(
    cls, table: Table, numbers: Sequence[str], categories: Sequence[str] = (), source: str = "table"
  ) -> "Encoder":
    """Takes means, standard deviations and values from the training set.

    Args:
      table: the training set.
      numbers: the columns of numbers.
      categories: the columns of categories.
      source: the table's origin, for messages.

    Raises:
      InputError: a column of numbers has a value that is no number, or no number at all.
    """
    statistics = {}
    for column in numbers:
      values = _numbers(table, column, source)
      known = values[np.isfinite(values)]
      if not known.size:
        raise errors.InputError(f"{source}: the column {column!r} has no number.")
      deviation = float(known.std())
      statistics[column] = float(known.mean()), deviation if deviation > 0 else 1.0
    return cls(
      statistics,
      {column: tuple(sorted(set(_texts(table[column])) - {""})) for column in categories},
    )

  @property
  def vocabulary_sizes(self) -> tuple[int, ...]:
    """The number of ids of each category."""
    return tuple(len(values) + 1 for values in self.vocabularies.values())

  def columns(self, table: Table, source: str = "table") -> Table:
    """Returns the columns behind the features, in the form for an export.

    Args:
      table: has the columns of the training set.
      source: the table's origin, for messages.

    Returns:
      Column → float64 [n], NaN for a missing number; or texts [n], "" for a missing text.

    Raises:
      InputError: a column of numbers has another value.
    """
    numbers = {column: _numbers(table, column, source) for column in self.statistics}
    texts = {column: np.array(_texts(table[column]), object) for column in self.vocabularies}
    return numbers | texts

  def features(self, table: Table, source: str = "table") -> dict[str, np.ndarray]:
    """Makes the features of a table's rows; for Args and Raises see `columns`.

    Returns:
      "numbers" (float32 [n, columns]) and "categories" (int32 [n, columns]), if there are such
      columns.
    """
    with tf.device("CPU"):
      made = self.to_features(
        {name: tf.constant(values) for name, values in self.columns(table, source).items()}
      )
    return {name: values.numpy() for name, values in made.items()}

  def to_features(self, columns: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Makes features of `columns`, in TensorFlow: for a training, and within an export."""
    found = {}
    if self.statistics:
      numbers = [
        (columns[column] - mean) / deviation
        for column, (mean, deviation) in self.statistics.items()
      ]
      normalised = tf.stack(numbers, -1)
      known = tf.where(tf.math.is_nan(normalised), tf.zeros_like(normalised), normalised)
      found["numbers"] = tf.cast(known, tf.float32)
    if self.vocabularies:
      ids = [table.lookup(columns[column]) for column, table in self._tables.items()]
      found["categories"] = tf.stack(ids, -1)
    return found

  def mark(self, dataset: tf.data.Dataset, table: Table, source: str = "table") -> tf.data.Dataset:
    """Records the columns behind a dataset's features, see `trainer.mark_raw`.

    Args:
      dataset: has the features of rows of the table.
      table: see `columns`.
      source: see `columns`.

    Returns:
      The same dataset.
    """
    columns = self.columns({name: values[:_SHOWN] for name, values in table.items()}, source)
    return trainer.mark_raw(dataset, columns, self.to_features, optional=columns.keys())

  @functools.cached_property
  def _tables(self):
    """Column → table from a value to its id, 0 for others.

    TensorFlow refuses a table without any key, so each has one for the missing value.
    """
    with tf.device("CPU"):
      return {
        column: tf.lookup.StaticHashTable(
          tf.lookup.KeyValueTensorInitializer(
            tf.constant(["", *values]), tf.range(len(values) + 1, dtype=tf.int32)
          ),
          default_value=0,
        )
        for column, values in self.vocabularies.items()
      }


@functools.lru_cache(maxsize=8)  # each evaluation calls input_fn again
def read(path: str, columns: tuple[str, ...], texts: tuple[str, ...] = ()) -> Table:
  """Reads columns of a CSV or Parquet file.

  Args:
    path: see `input_fn`.
    columns: their names.
    texts: the columns to read as texts from a CSV file: 007 is not 7 there. Other columns have the
      type that fits all their values.

  Returns:
    Column → array [n] from pyarrow; a missing number is NaN, another missing value None.

  Raises:
    InputError: reading the file failed, it has no rows, or a column is missing.
  """
  if not path.endswith((".csv", ".parquet")):
    raise errors.InputError(f"{path}: expected a name that ends in .csv or .parquet.")
  import pyarrow
  from pyarrow import csv, parquet

  try:
    with tf.io.gfile.GFile(path, "rb") as file:
      source = pyarrow.BufferReader(file.read())
    as_texts = csv.ConvertOptions(column_types=dict.fromkeys(texts, pyarrow.string()))
    table = (
      csv.read_csv(source, convert_options=as_texts)
      if path.endswith(".csv")
      else parquet.read_table(source)
    )
  except (tf.errors.OpError, pyarrow.ArrowException, OSError) as error:
    line = (getattr(error, "message", None) or str(error)).splitlines()[0]
    raise errors.InputError(f"Cannot read the table {path}: {line}") from error
  twice = [column for column in columns if table.column_names.count(column) > 1]
  if twice:
    raise errors.InputError(f"{path} has several columns {twice[0]!r}: rename all but one.")
  missing = [column for column in columns if column not in table.column_names]
  if missing:
    raise errors.InputError(
      f"{path} has no column {missing[0]!r}; it has {', '.join(table.column_names)} "
      "(tabular.input_fn.schema)."
    )
  if not table.num_rows:
    raise errors.InputError(f"{path} has no rows.")
  return {column: table[column].to_numpy() for column in columns}


def _encoder(training_path, columns):
  names = tuple(name for names in columns.values() for name in names)
  table = read(training_path, names, tuple(columns["category"]))
  return Encoder.fit(table, columns["number"], columns["category"], training_path)


def _columns(schema):
  """Returns kind → its columns, in the order of the schema."""
  found: dict[str, list[str]] = {kind: [] for kind in KINDS}
  for column, kind in schema.items():
    if kind not in KINDS:
      raise errors.SettingError(
        f"tabular.input_fn.schema[{column!r}] is {kind!r}: expected one of {', '.join(KINDS)}."
      )
    found[kind].append(column)
  features, weights = [*found["number"], *found["category"]], found["weight"]
  predicted = [kind for kind in _PREDICTED if found[kind]]
  if len(predicted) != 1 or len(found["label"]) > 1 or not features or len(weights) > 1:
    counted = ", ".join(f"{len(names)} of kind {kind}" for kind, names in found.items() if names)
    raise errors.SettingError(
      f"tabular.input_fn.schema has these columns: {counted or 'none'}. Expected one label (or "
      "some targets, or some tags), a number or category, and at most one weight."
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
  targets = np.stack([_numbers(table, column, path) for column in columns], -1)
  for row, place in np.argwhere(~np.isfinite(targets))[:1]:
    raise errors.InputError(
      f"{path}, row {row + 1}: the target {columns[place]!r} is {targets[row, place]}; expected a "
      "finite number. Leave out the rows without a target."
    )
  return targets


def _tags(table, column, path):
  values = _numbers(table, column, path)
  wrong = np.flatnonzero((values != 0) & (values != 1))
  if wrong.size:
    raise errors.InputError(
      f"{path}, row {wrong[0] + 1}: the tag {column!r} is {table[column].tolist()[wrong[0]]!r}; "
      "expected 0 or 1, or true or false."
    )
  return values.astype(np.int32)


def _labels(table, column, classes, path):
  if classes is None:
    values = _numbers(table, column, path)
    # A column of identities, such as customers' numbers, may exceed an int32.
    fits = (values >= 0) & (values == np.floor(values)) & (values <= in_memory.LARGEST_LABEL)
    wrong = np.flatnonzero(~fits)
    expected = f"an integer of at least 0, {in_memory.LARGEST_LABEL:,} at most"
    expected += " (or set tabular.input_fn.classes)"
    labels = np.where(fits, values, 0)
  else:
    labels = _ids(table[column], tuple(classes)) - 1
    wrong, expected = np.flatnonzero(labels < 0), f"one of {', '.join(classes)}"
  if wrong.size:
    row, value = wrong[0], table[column].tolist()[wrong[0]]
    raise errors.InputError(
      f"{path}, row {row + 1}: the label {column!r} is {value!r}; expected {expected}."
    )
  return labels.astype(np.int32)


def _weights(table, columns, source):
  """Returns the rows' weights, or None without a weight column."""
  for column in columns:
    weights = _numbers(table, column, source)
    wrong = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))
    if wrong.size:
      value = table[column].tolist()[wrong[0]]
      raise errors.InputError(
        f"{source}, row {wrong[0] + 1}: the weight {column!r} is {value!r}; expected a number of "
        "at least 0."
      )
    return weights
  return None


def _numbers(table, column, source):
  """Returns a column as float64, NaN where a number is missing."""
  values = table[column]
  if values.dtype.kind in "biuf":
    return values.astype(np.float64)
  for row, value in enumerate(values):
    try:
      float("nan" if value is None else value)
    except (TypeError, ValueError):
      raise errors.InputError(
        f"{source}, row {row + 1}: the column {column!r} has {value!r}; expected a number."
      ) from None
  return np.array([np.nan if value is None else value for value in values], np.float64)


def _texts(values):
  """Returns the values of a column as texts, "" for a missing value.

  An integer column with missing values becomes a column of floats: 3.0 and 3 are the same category.
  """
  if values.dtype.kind == "f":
    return [
      "" if np.isnan(value) else str(int(value)) if value.is_integer() else str(value)
      for value in values.tolist()
    ]
  return ["" if value is None else str(value) for value in values.tolist()]


def _ids(values, vocabulary):
  ids = {value: number for number, value in enumerate(vocabulary, 1)}
  return np.array([ids.get(value, 0) for value in _texts(values)], np.int32)
