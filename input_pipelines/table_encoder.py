"""Makes features from the columns of a table, by the values of the training set."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from . import table_columns
from .table_columns import Table

Statistics = tuple[tuple[float, ...], tuple[float, ...]]  # means, standard deviations

_SHOWN = 16  # rows that check an export
# (days from a beginning to 1970-01-01, days) of the year, the week from Monday on, and the day.
_CYCLES = ((0.0, 365.2425), (3.0, 7.0), (0.0, 1.0))
_LAST_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # of the months of a leap year
_NUMBERS_OF_DATE = 1 + 2 * len(_CYCLES)


def statistics_of(values: np.ndarray) -> Statistics:
  """Returns the means and standard deviations of columns [n, k], without NaN.

  A constant column has a deviation of 1: scikit-learn knows a deviation that is rounding alone.
  """
  from sklearn import preprocessing

  scaler = preprocessing.StandardScaler().fit(values)
  return tuple(scaler.mean_.tolist()), tuple(scaler.scale_.tolist())


@dataclasses.dataclass(frozen=True)
class Encoder:
  """Makes features from the columns of a table.

  Attributes:
    statistics: column of numbers → (mean, standard deviation).
    vocabularies: column of categories → its values, with the ids 1, 2, ...
    dates: column of dates → (means, standard deviations) of its seven numbers, see `date_numbers`.
    missing: column → the share of rows of the training set without a value.
  """

  statistics: Mapping[str, tuple[float, float]]
  vocabularies: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
  dates: Mapping[str, Statistics] = dataclasses.field(default_factory=dict)
  missing: Mapping[str, float] = dataclasses.field(default_factory=dict)

  @classmethod
  def fit(
    cls,
    table: Table,
    numbers: Sequence[str],
    categories: Sequence[str] = (),
    dates: Sequence[str] = (),
    source: str = "table",
  ) -> "Encoder":
    """Takes means, standard deviations and values from the training set.

    Args:
      table: the training set.
      numbers: the columns of numbers.
      categories: the columns of categories.
      dates: the columns of dates.
      source: the table's origin, for messages.

    Raises:
      InputError: a column of numbers or dates has another value, or none at all.
    """
    statistics, of_dates, vocabularies, missing = {}, {}, {}, {}
    for column in numbers:
      values = table_columns.numbers(table, column, source)
      known = values[np.isfinite(values)]
      if not known.size:
        raise errors.InputError(f"{source}: the column {column!r} has no number.")
      (mean,), (deviation,) = statistics_of(known[:, np.newaxis])
      statistics[column], missing[column] = (mean, deviation), float(np.isnan(values).mean())
    for column in categories:
      places, texts = table_columns.encoded(table[column])
      vocabularies[column] = tuple(sorted(set(texts) - {""}))
      missing[column] = float(_is_missing(places, texts).mean())
    for column in dates:
      places, texts = table_columns.dates(table, column, source)
      is_missing = _is_missing(places, texts)
      if is_missing.all():
        raise errors.InputError(f"{source}: the column {column!r} has no date.")
      of_dates[column] = statistics_of(_date_numbers(texts)[places[~is_missing]])
      missing[column] = float(is_missing.mean())
    return cls(statistics, vocabularies, of_dates, missing)

  @property
  def vocabulary_sizes(self) -> tuple[int, ...]:
    """The number of ids of each category."""
    return tuple(len(values) + 1 for values in self.vocabularies.values())

  def columns(self, table: Table, source: str = "table") -> dict[str, np.ndarray]:
    """Returns the columns behind the features, in the form for an export.

    Args:
      table: has the columns of the training set.
      source: the table's origin, for messages.

    Returns:
      Column → float64 [n], NaN for a missing number; or texts [n], "" for a missing text or date.

    Raises:
      InputError: a column of numbers or dates has another value.
    """
    numbers = {column: table_columns.numbers(table, column, source) for column in self.statistics}
    texts = {column: table_columns.encoded(table[column]) for column in self.vocabularies}
    texts |= {column: table_columns.dates(table, column, source) for column in self.dates}
    return numbers | {
      column: np.array([*values, ""], object)[places] for column, (places, values) in texts.items()
    }

  def features(self, table: Table, source: str = "table") -> dict[str, np.ndarray]:
    """Makes the features of a table's rows; for Args and Raises see `columns`.

    Returns:
      "numbers" (float32 [n, k]: the columns of numbers, then seven for each date) and "categories"
      (int32 [n, columns]), if there are such columns.
    """
    rows = len(next(iter(table.values())))
    width = len(self.statistics) + _NUMBERS_OF_DATE * len(self.dates)
    # One column at a time is in float64: a large table fits into memory once, not several times.
    numbers = np.empty([rows, width], np.float32)
    for place, (column, (mean, deviation)) in enumerate(self.statistics.items()):
      normalised = table_columns.numbers(table, column, source) - mean
      normalised /= deviation
      normalised[np.isnan(normalised)] = 0
      numbers[:, place] = normalised
    for place, (column, (means, deviations)) in enumerate(self.dates.items()):
      places, texts = table_columns.dates(table, column, source)
      normalised = np.nan_to_num((_date_numbers(texts) - means) / deviations)
      first = len(self.statistics) + _NUMBERS_OF_DATE * place
      numbers[:, first : first + _NUMBERS_OF_DATE] = normalised[places]
    ids = [_ids(table[column], values) for column, values in self.vocabularies.items()]
    return ({"numbers": numbers} if width else {}) | (
      {"categories": np.stack(ids, -1)} if ids else {}
    )

  def gaps(self, table: Table, source: str = "table") -> dict[str, dict[str, float]]:
    """Returns the shares of rows without a value that the training set has.

    Returns:
      Column → {"missing": share, "missing in training": share} and, for a category, "unknown": the
      share of rows with a value that the training set does not have.
    """
    found = {
      column: {"missing": float(np.isnan(table_columns.numbers(table, column, source)).mean())}
      for column in self.statistics
    }
    for column in self.dates:
      missing = _is_missing(*table_columns.dates(table, column, source))
      found[column] = {"missing": float(missing.mean())}
    for column, vocabulary in self.vocabularies.items():
      missing = _is_missing(*table_columns.encoded(table[column]))
      unknown = (_ids(table[column], vocabulary) == 0) & ~missing
      found[column] = {"missing": float(missing.mean()), "unknown": float(unknown.mean())}
    return {
      column: shares | {"missing in training": self.missing[column]}
      for column, shares in found.items()
    }

  def to_features(self, columns: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Makes features of `columns`, in TensorFlow, within an export."""
    found = {}
    parts = [
      ((columns[column] - mean) / deviation)[:, tf.newaxis]
      for column, (mean, deviation) in self.statistics.items()
    ]
    parts += [
      (date_numbers(columns[column]) - means) / deviations
      for column, (means, deviations) in self.dates.items()
    ]
    if parts:
      normalised = tf.concat(parts, -1)
      known = tf.where(tf.math.is_nan(normalised), tf.zeros_like(normalised), normalised)
      found["numbers"] = tf.cast(known, tf.float32)
    if self.vocabularies:
      ids = [
        table.lookup(
          tf.strings.regex_replace(tf.strings.strip(columns[column]), table_columns.WHOLE, r"\1")
        )
        for column, table in self._tables.items()
      ]
      found["categories"] = tf.stack(ids, -1)
    return found

  def mark(
    self, dataset: tf.data.Dataset, table: Table, source: str = "table", training: bool = False
  ) -> tf.data.Dataset:
    """Records the columns behind a dataset's features, see `trainer.mark_raw`.

    Args:
      dataset: has the features of the table's rows, in their order unless for training.
      table: see `columns`.
      source: see `columns`.
      training: whether the dataset shuffles the rows.

    Returns:
      The same dataset.
    """
    columns = self.columns({name: values[:_SHOWN] for name, values in table.items()}, source)
    return trainer.mark_raw(
      dataset,
      columns,
      self.to_features,
      optional=columns.keys(),
      rows=None if training else {column: table[column] for column in columns},
      gaps=None if training else self.gaps(table, source),
      known=self.vocabularies,
    )

  @functools.cached_property
  def _tables(self):
    """Column → table from a value to its id, 0 for others.

    TensorFlow refuses a table without any key, so each has one for the missing value.
    """
    # An export calls `to_features` in a graph, and the next one in another.
    with tf.init_scope(), tf.device("CPU"):
      return {
        column: tf.lookup.StaticHashTable(
          tf.lookup.KeyValueTensorInitializer(
            tf.constant(["", *values]), tf.range(len(values) + 1, dtype=tf.int32)
          ),
          default_value=0,
        )
        for column, values in self.vocabularies.items()
      }


def date_numbers(texts: tf.Tensor) -> tf.Tensor:
  """Makes numbers of dates, in TensorFlow.

  Args:
    texts: string [n], of the form of `table_columns.DATE`; "" for a missing date.

  Returns:
    float64 [n, 7], NaN for a missing date: the days since 1970-01-01, with the time as a fraction;
    and the sine and cosine of the time of the year, of the week and of the day. The last two are
    constant for dates without a time.
  """
  texts = tf.strings.strip(texts)
  is_missing = tf.equal(texts, "")
  known = tf.where(is_missing, tf.constant("1970-01-01"), texts)

  # Another text stays as it is, so that `to_number` raises an error with it.
  def part(number):
    digits = tf.strings.regex_replace(known, table_columns.DATE, rf"0\{number}")
    return tf.strings.to_number(digits, tf.float64)

  year, month, day, hour, minute, second = map(part, range(1, 7))
  multiples = [tf.equal(tf.math.floormod(year, number), 0) for number in (4, 100, 400)]
  is_leap = multiples[0] & (~multiples[1] | multiples[2])
  last = tf.gather(tf.constant(_LAST_DAYS, tf.float64), tf.cast(month, tf.int32) - 1)
  last -= tf.cast(tf.equal(month, 2) & ~is_leap, tf.float64)
  # A day that its month does not have, such as 31 February, is such a text too.
  day += tf.strings.to_number(tf.where(day > last, known, "0"), tf.float64)
  # The civil calendar begins in March here, so that a leap day ends a year: Howard Hinnant,
  # "chrono-Compatible Low-Level Date Algorithms", days_from_civil.
  year -= tf.cast(month <= 2, tf.float64)
  of_year = tf.floor((153 * tf.math.floormod(month + 9, 12) + 2) / 5) + day - 1
  days = 365 * year + tf.floor(year / 4) - tf.floor(year / 100) + tf.floor(year / 400)
  days += of_year - 719_468
  days = (days * 86_400 + hour * 3_600 + minute * 60 + second) / 86_400
  # The remainders are exact, so that dates without a time have constant waves of the day.
  turns = [tf.math.floormod(days + first, length) / length for first, length in _CYCLES]
  waves = [wave(2 * math.pi * turn) for turn in turns for wave in (tf.sin, tf.cos)]
  numbers = tf.stack([days, *waves], -1)
  return tf.where(is_missing[:, tf.newaxis], tf.constant(math.nan, tf.float64), numbers)


def _date_numbers(texts):
  """Returns the numbers of different dates, and a last row of NaN for the place -1."""
  with tf.device("CPU"):
    return date_numbers(tf.constant([*texts, ""])).numpy()


def _is_missing(places, texts):
  return np.array([*(text == "" for text in texts), True])[places]


def _ids(column, vocabulary):
  ids = {value: number for number, value in enumerate(vocabulary, 1)}
  places, texts = table_columns.encoded(column)
  return np.array([*(ids.get(text, 0) for text in texts), 0], np.int32)[places]
