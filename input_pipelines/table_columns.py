"""Reads columns of CSV and Parquet files, and the values of a column: numbers, texts or dates.

    table = read("train.csv", ("age", "job"), texts=("job",))
    numbers(table, "age", "train.csv")       # float64 [n], NaN for a missing number
    encoded(table["job"])                    # which of the few different texts each row has

A column is an array of pyarrow, or of numpy. A text takes four bytes a row here, the place among
the column's different texts; a Python object takes twenty times as much.
"""

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors

Table = Mapping[str, Any]  # column → pyarrow.ChunkedArray or numpy array, [n]

# A whole number that another program has written as a float, such as pandas a column of integers
# with an empty cell. TensorFlow's regular expressions and Python's read it alike.
WHOLE = r"^([+-]?(?:0|[1-9][0-9]*))\.0*$"
SPACES = " \t\n\v\f\r"  # What tf.strings.strip removes.

# A date, or a date and a time, of ISO 8601 and in UTC if a zone is given.
DATE = (
  r"^([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
  r"(?:[T ]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9](?:\.[0-9]+)?))?)?Z?$"
)


def read(path: str, columns: Sequence[str], texts: Sequence[str] = ()) -> Table:
  """Reads columns of a CSV or Parquet file.

  Args:
    path: local or gs://, ends in .csv or .parquet.
    columns: their names.
    texts: the columns to read as texts from a CSV file: 007 is not 7 there. Other columns have the
      type that fits all their values.

  Raises:
    InputError: reading the file failed, it has no rows, or a column is missing.
  """
  if not path.endswith((".csv", ".parquet")):
    raise errors.InputError(f"{path}: expected a name that ends in .csv or .parquet.")
  import pyarrow
  from pyarrow import csv, parquet

  try:
    with _source(path) as source:
      if path.endswith(".parquet"):
        file = parquet.ParquetFile(source, read_dictionary=list(texts))
        _check_columns(path, columns, file.schema_arrow.names)
        table = file.read(columns=list(columns))
      else:
        _check_columns(path, columns, csv.open_csv(source).schema.names)
        source.seek(0)
        types = dict.fromkeys(texts, pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
        options = csv.ConvertOptions(include_columns=list(columns), column_types=types)
        table = csv.read_csv(source, convert_options=options)
  except (tf.errors.OpError, pyarrow.ArrowException, OSError) as error:
    line = (getattr(error, "message", None) or str(error)).splitlines()[0]
    raise errors.InputError(f"Cannot read the table {path}: {line}") from error
  if not table.num_rows:
    raise errors.InputError(f"{path} has no rows.")
  return {column: table[column] for column in columns}


def _source(path):
  import pyarrow

  if "://" not in path:
    return pyarrow.OSFile(path)  # reads the chosen columns of a Parquet file alone
  with tf.io.gfile.GFile(path, "rb") as file:
    return pyarrow.BufferReader(file.read())


def _check_columns(path, columns, names):
  twice = [column for column in columns if names.count(column) > 1]
  if twice:
    raise errors.InputError(f"{path} has several columns {twice[0]!r}: rename all but one.")
  missing = [column for column in columns if column not in names]
  if missing:
    raise errors.InputError(
      f"{path} has no column {missing[0]!r}; it has {', '.join(names)} (tabular.input_fn.schema)."
    )


def values_of(column: Any) -> list[Any]:
  """Returns a column's values as Python objects, None for a missing value."""
  return _arrow(column).to_pylist()


def numbers(table: Table, column: str, source: str) -> np.ndarray:
  """Returns a column as float64 [n], NaN where a number is missing.

  Args:
    table: has the column.
    column: its name.
    source: the table's origin, for messages.

  Raises:
    InputError: a value is no number.
  """
  import pyarrow

  values, types = _arrow(table[column]), pyarrow.types
  if types.is_dictionary(values.type):
    values = values.cast(values.type.value_type)
  tests = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null
  if any(test(values.type) for test in tests):
    return values.cast(pyarrow.float64(), safe=False).to_numpy()
  found = np.full(len(values), np.nan)
  for row, value in enumerate(values.to_pylist()):
    try:
      found[row] = np.nan if value is None else value
    except (TypeError, ValueError):
      raise errors.InputError(
        f"{source}, row {row + 1}: the column {column!r} has {str(value)!r}; expected a number."
      ) from None
  return found


def encoded(column: Any) -> tuple[np.ndarray, list[str]]:
  """Returns a column of texts, as places int32 [n] in a list of its different values.

  A missing value has the place -1 or the text "". Spaces around a text do not count. A whole number
  is the same in every form: 3, 3.0 and "3.0" are "3".
  """
  places, values = _dictionary(column)
  return places, [text_of(value) for value in values.to_pylist()]


def text_of(value: Any) -> str:
  """Returns a category's text, see `encoded`."""
  if value is None or value != value:
    return ""
  return re.sub(WHOLE, r"\1", str(value).strip(SPACES))


def dates(table: Table, column: str, source: str) -> tuple[np.ndarray, list[str]]:
  """Returns a column of dates, as places int32 [n] in a list of its different ISO 8601 texts.

  A missing date has the place -1 or the text "". For Args see `numbers`.

  Raises:
    InputError: a value is no date.
  """
  import pyarrow

  places, values = _dictionary(table[column])
  if pyarrow.types.is_timestamp(values.type):
    values = values.cast(pyarrow.timestamp(values.type.unit))  # in UTC
  texts = [str(value or "").strip(SPACES) for value in values.cast(pyarrow.string()).to_pylist()]
  wrong = [place for place, text in enumerate(texts) if text and not _is_date(text)]
  if wrong:
    row = np.flatnonzero(places == wrong[0])[0]
    raise errors.InputError(
      f"{source}, row {row + 1}: the column {column!r} has {texts[wrong[0]]!r}; expected a date "
      "such as 2024-05-31, or a time such as 2024-05-31 18:30:00."
    )
  return places, texts


def _is_date(text):
  try:
    datetime.date.fromisoformat(text[:10])  # refuses 31 February
  except ValueError:
    return False
  return bool(re.search(DATE, text))


def _dictionary(column):
  """Returns (places int32 [n], -1 for null; the array of different values)."""
  import pyarrow

  values = _arrow(column)
  if not pyarrow.types.is_dictionary(values.type):
    values = values.dictionary_encode()
  whole = values.unify_dictionaries().combine_chunks()
  places = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)
  return places.astype(np.int32, copy=False), whole.dictionary


def _arrow(column):
  import pyarrow

  return pyarrow.chunked_array([column]) if isinstance(column, np.ndarray) else column
