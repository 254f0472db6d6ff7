"""Raw values of columns and texts: numbers as texts, missing values, names of a table.

parse("12.5", {"dtype": "float64", "optional": True})      12.5, as a cell of CSV has it
parse("", {"dtype": "float64", "optional": True})          None: it is missing
served({"mean age": [12.5, None]}, loaded.raw)             {"mean_age": [12.5, nan]}
"""

import collections
import datetime
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainer import errors


def parse(text: str | None, column: Mapping[str, Any]) -> Any:
  """Returns the value of a cell of CSV: a text, a number, or None for a missing value.

  Raises:
    InputError: the column has numbers, and the cell has none; or the line has no such cell.
  """
  if text is None:
    raise errors.InputError("the line has too few cells")
  if column["dtype"] == "string":
    return text
  stripped = text.strip()
  if stripped in _missing_spellings():
    return None
  # A training reads its tables by pyarrow, and pyarrow turns these words into 1 and 0.
  if stripped.lower() in ("true", "false"):
    return stripped.lower() == "true"
  # An int column refuses "12.5": a conversion would cut it off silently.
  try:
    return float(stripped) if column["dtype"] == "float64" else int(stripped)
  except ValueError:
    raise errors.InputError(f"{text!r} is no number") from None


@functools.cache
def _missing_spellings():
  from pyarrow import csv

  return frozenset(csv.ConvertOptions().null_values)


def served(columns: Mapping[str, Any], raw: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
  """Returns columns under their names in the signature, with NaN or "" for missing values.

  Args:
    columns: name of the column, or its name in the signature → values of the examples.
    raw: see `LoadedModel.raw`.

  Raises:
    InputError: a required value is missing.
  """
  by_input = {column["input"]: name for name, column in raw.items()}
  found = {}
  for given, values in columns.items():
    name = by_input.get(given, given)
    column = raw.get(name)
    if column is None:  # the caller refuses unknown names
      found[given] = values
      continue
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
      values = [_value(value, name, column) for value in values]
    found[column["input"]] = values
  return found


class Unknown:
  """Counts the texts of columns that the training does not know.

  Args:
    raw: see `LoadedModel.raw`.

  Attributes:
    counts: column → the number of its unknown texts.
  """

  def __init__(self, raw: Mapping[str, Mapping[str, Any]]) -> None:
    self.counts: collections.Counter[str] = collections.Counter()
    self._known = {
      name: {"", *column["known"]} for name, column in raw.items() if "known" in column
    }

  def watch(self, examples: Iterable[Any]) -> Iterator[Any]:
    """Yields examples (`serving.examples.Example`) unchanged, and counts."""
    for example in examples:
      for name, known in self._known.items():
        value = example.values.get(name)
        text = "" if value is None else str(value).strip()
        # A whole number may have the form of a float, see trainer.mark_raw.
        whole = re.sub(r"^([+-]?(?:0|[1-9][0-9]*))\.0*$", r"\1", text)
        if text not in known and whole not in known:
          self.counts[name] += 1
      yield example


def _value(value, name, column):
  text = column["dtype"] == "string"
  if value is None:
    if not column["optional"]:
      raise errors.InputError(f"{name!r} is missing.")
    return "" if text else float("nan")
  # A column of texts, such as postcodes, may hold numbers or dates in JSON and Parquet.
  if text and isinstance(value, bool | int | float | datetime.date):
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)
  return value
