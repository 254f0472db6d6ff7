"""Writes predictions to files: JSON lines or CSV.

    predictions.jsonl    {"input": "a.jpg", "class": 3, "class_name": "cat", "probabilities": [...]}
                         {"input": "b.jpg", "error": "..."}
    predictions.csv      input,class,class_name,probabilities_0,...,error

Each example has an entry, in order, even a failed one. An output called input or error gets a "_"
after its name.
"""

import contextlib
import csv
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.io import files, storage
from trainer.outputs import predictions
from trainer.serving.loaded_model import LoadedModel

ENDINGS = (".jsonl", ".csv")
_MOST_COLUMNS = 10_000
_RESERVED = ("input", "error")


def check_path(path: str, loaded: LoadedModel) -> None:
  """Raises SettingError for an unknown ending, and for a file that cannot hold the outputs."""
  ending = os.path.splitext(path)[1]
  if path != "-" and ending not in ENDINGS:
    raise errors.SettingError(
      f"--output={path}: expected a name that ends in {', '.join(ENDINGS)}, or - for JSON lines "
      "on standard output."
    )
  if ending == ".csv":
    _columns(loaded)


# Adds the entries of a batch, see `entries`.
Add = Callable[[list[dict]], None]


@contextlib.contextmanager
def writer(path: str, loaded: LoadedModel) -> Iterator[Add]:
  """Yields the function that adds a batch to a file. The file appears once it is complete.

  Raises:
    OutputError: it cannot write the file.
  """
  if path == "-":
    yield functools.partial(_add_lines, sys.stdout)
    sys.stdout.flush()
    return
  add: Add
  with contextlib.ExitStack() as opened:
    with _told_as_output(path):
      storage.makedirs(os.path.dirname(path) or ".")
      file = opened.enter_context(files.write_atomically(path))
      add = functools.partial(_add_lines, file)
      if path.endswith(".csv"):
        table = csv.DictWriter(file, _columns(loaded), lineterminator="\n")
        table.writeheader()
        add = functools.partial(_add_rows, table)
    yield _told_as_output(path)(add)
    # An error of the model passes by: TensorFlow's errors are not all of the file.
    with _told_as_output(path):
      opened.close()


@contextlib.contextmanager
def _told_as_output(path):
  """Turns errors of a file system into OutputErrors."""
  try:
    yield
  except (tf.errors.OpError, OSError) as error:
    if isinstance(error, errors.OctetError):
      raise
    raise errors.OutputError(f"Cannot write {path} (--output): {error}") from error


def entries(
  names: Sequence[str],
  failed: Mapping[int, str],
  outputs: Mapping[str, np.ndarray],
  class_names: Sequence[str] | None,
) -> Iterator[dict]:
  """Yields an entry for each example: its predictions in plain Python, or its error."""
  plain = {_key(name): predictions.to_json(array) for name, array in outputs.items()}
  row = 0
  for place, name in enumerate(names):
    # Linux's names of files may have bytes that UTF-8 lacks, and no line can hold them.
    shown = name.encode(errors="backslashreplace").decode()
    if place in failed:
      yield {"input": shown, "error": failed[place]}
      continue
    entry = {"input": shown}
    # The outputs have no rows for failed examples, so `row` counts apart from `place`.
    for key, values in plain.items():
      entry[key] = value = values[row]
      if key == "class" and class_names and isinstance(value, int):
        is_known = 0 <= value < len(class_names)
        entry["class_name"] = class_names[value] if is_known else str(value)
    yield entry
    row += 1


def _key(name):
  """Returns an output's name in an entry."""
  return f"{name}_" if name in _RESERVED else name


def _add_lines(file, batch):
  """Writes a line of JSON for each example."""
  for entry in batch:
    file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _add_rows(table, batch):
  """Writes a row of CSV for each example, with a column for each number."""
  for entry in batch:
    flat = {}
    for key, value in entry.items():
      several = value if isinstance(value, list) else None
      flat |= {key: value} if several is None else {f"{key}_{i}": x for i, x in enumerate(several)}
    table.writerow(flat)


def _columns(loaded):
  columns = ["input"]
  for name, spec in loaded.outputs.items():
    shape = spec["shape"]
    if (
      shape is None or len(shape) > 2 or None in shape[1:] or (shape[1:] or [1])[0] > _MOST_COLUMNS
    ):
      raise errors.SettingError(
        f"--output: CSV cannot hold the output {name!r} of shape {shape}; use .jsonl."
      )
    key = _key(name)
    columns += [f"{key}_{place}" for place in range(shape[1])] if len(shape) == 2 else [key]
    if name == "class" and loaded.class_names:
      columns.append("class_name")
  return [*columns, "error"]
