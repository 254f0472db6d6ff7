"""Examples from files: images, folders of them, TFRecords, CSV, JSON lines, Parquet.

    examples, count = read(["photos/*.jpg"], loaded)

Nothing is left out and nothing changes places: what cannot be used is an example with an error.
`serving.features` makes batches of them.

What a line of CSV or JSON has for a feature that can be decoded is the path of a file, beside the
file with the lines if it is relative; for others, numbers or texts. In CSV, the numbers of a
feature `x` of several are in columns x_0, x_1 and so on, or a JSON list in the column x. An export
that takes columns and texts as users have them (from_raw) gets those.
"""

import csv
import dataclasses
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.io import json_form, storage
from trainer.serving import raw_values
from trainer.serving.loaded_model import LoadedModel

IMAGES = (".jpg", ".jpeg", ".png", ".gif", ".bmp")
LINES = (".csv", ".tsv", ".jsonl")
PARQUET = ".parquet"
_FIELD_LIMIT = 1 << 30  # characters in a field of CSV


@dataclasses.dataclass
class Example:
  """An example that nobody has looked at yet.

  Attributes:
    name: for people: a path, a line or a record.
    values: feature → value; or column → value.
    paths: feature → path of a file that has it encoded.
    record: a serialised tf.train.Example, which has all features.
    error: why it cannot be used, or None.
  """

  name: str
  values: dict[str, Any] = dataclasses.field(default_factory=dict)
  paths: dict[str, str] = dataclasses.field(default_factory=dict)
  record: bytes | None = None
  error: str | None = None


def read(inputs: Sequence[str], loaded: LoadedModel) -> tuple[Iterable[Example], int | None]:
  """The examples of files, and how many there are if that is known without reading them.

  Args:
    inputs: paths, globs and folders, in whose order the examples come; or "-" for standard input,
      where a line is a JSON object or the path of an image.
    loaded: the model that they are for.

  Raises:
    InputError: there are no such files, or it is not known what they are.
    SettingError: images are given, and the model takes something else.
  """
  if list(inputs) == ["-"]:
    return _from_lines(sys.stdin, "standard input", "", loaded), None
  paths = [path for pattern in inputs for path in _listed(pattern)]
  images = [path for path in paths if path.lower().endswith(IMAGES)]
  feature = image_feature(loaded) if images else None
  count = len(paths) if images and len(images) == len(paths) else None
  return (example for path in paths for example in _of_file(path, loaded, feature)), count


def image_feature(loaded: LoadedModel) -> str:
  """The one feature that an image is for; SettingError if there is none, or another beside it."""
  if len(loaded.decoders) == 1 and set(loaded.decoders) == set(loaded.inputs):
    return next(iter(loaded.decoders))
  decodes = ", ".join(loaded.decoders) or "nothing"
  raise errors.SettingError(
    f"--input has images, and the model takes {', '.join(sorted(loaded.inputs))}, of which it "
    f"decodes {decodes}. Give JSON lines or TFRecords with all features; or export again with an "
    "input_fn that says how it decodes (trainer.mark_decodable)."
  )


def _listed(pattern):
  if pattern == "-":
    raise errors.SettingError("--input=- is standard input, and takes no other --input beside it.")
  if storage.isdir(pattern):
    found = sorted(
      os.path.join(folder, name)
      for folder, _, names in storage.walk(pattern)
      for name in names
      if not name.startswith(".") and name.lower().endswith(IMAGES)
    )
    if not found:
      raise errors.InputError(
        f"The folder {pattern} (--input) has no images: no {', '.join(IMAGES)} files."
      )
    return found
  # A name with brackets in it is a file first, and a pattern only if there is no such file.
  found = [pattern] if storage.exists(pattern) else sorted(storage.glob(pattern))
  if not found:
    raise errors.InputError(f"There is no file {pattern} (--input).")
  return [path for path in found if not storage.isdir(path)]


def _of_file(path, loaded, feature):
  ending = os.path.splitext(path.lower())[1]
  if ending in IMAGES and feature is not None:
    return [Example(path, paths={feature: path})]
  if ending in LINES:
    return _from_file_of_lines(path, ending, loaded)
  if ending == PARQUET:
    return _from_parquet(path, loaded)
  if "tfrecord" in os.path.basename(path).lower():
    return _from_records(path)
  return [
    Example(
      path,
      error=f"it is not known what this is: expected {', '.join((*IMAGES, *LINES, PARQUET))}, or a "
      'name with "tfrecord" in it',
    )
  ]


def _from_records(path):
  compression = "GZIP" if path.endswith(".gz") else ""
  records = iter(tf.data.TFRecordDataset(path, compression).as_numpy_iterator())
  number = 0
  while True:
    name = f"{path}: record {number}"
    try:
      record = next(records)
    except StopIteration:
      return
    except tf.errors.OpError as error:  # nobody knows where the next one would begin
      yield Example(name, error=f"damaged, and what follows in this file is lost: {error.message}")
      return
    yield Example(name, record=record)
    number += 1


def _from_file_of_lines(path, ending, loaded):
  folder = os.path.dirname(path)
  try:
    with storage.opened(path) as file:
      if ending == ".jsonl":
        yield from _from_lines(file, path, folder, loaded)
        return
      csv.field_size_limit(_FIELD_LIMIT)
      settings = dict(delimiter="\t", quoting=csv.QUOTE_NONE) if ending == ".tsv" else {}
      # Spreadsheets begin a file with a byte-order mark, which is no part of the first name.
      lines = (line.removeprefix("\ufeff") for line in file)
      reader = csv.DictReader(lines, **settings)
      for row in reader:
        yield _of_row(f"{path}, line {reader.line_num}", row, folder, loaded)
  except (tf.errors.OpError, UnicodeDecodeError, csv.Error) as error:
    yield Example(path, error=f"it cannot be read: {error}")


def _from_parquet(path, loaded):
  import pyarrow
  from pyarrow import parquet

  folder, number = os.path.dirname(path), 0
  try:
    content = pyarrow.BufferReader(storage.read(path, "rb"))
    with parquet.ParquetFile(content) as file:
      for batch in file.iter_batches():
        for row in batch.to_pylist():
          number += 1
          yield _of_object(f"{path}, row {number}", row, folder, loaded)
  except (tf.errors.OpError, pyarrow.ArrowException, OSError) as error:
    yield Example(path, error=f"it cannot be read: {errors.first_line(error)}")


def _from_lines(lines, source, folder, loaded):
  for number, line in enumerate(lines, 1):
    name, text = f"{source}, line {number}", line.strip()
    if not text:
      continue
    if source == "standard input" and not text.startswith("{"):
      yield Example(text, paths={image_feature(loaded): text})
      continue
    try:
      row = json_form.parse(text, dict, "the line", "expected a JSON object")
    except errors.FileDamagedError as error:
      yield Example(name, error=str(error))
      continue
    yield _of_object(name, row, folder, loaded)


def _of_object(name, row, folder, loaded):
  """An example of a dict of values; what the model does not take is not looked at."""
  example = Example(name)
  for feature in loaded.takes(row):
    if feature not in row:
      return Example(name, error=f"no {feature!r}; there is {', '.join(map(str, row))}")
    value = row[feature]
    if feature in loaded.decoders and isinstance(value, str):
      example.paths[feature] = value if "://" in value else os.path.join(folder, value)
    else:
      example.values[feature] = value
  return example


def _of_row(name, row, folder, loaded):
  """The same of a row of CSV, in which all is text."""
  found = dict(row)
  taken = loaded.takes(row)
  if taken is loaded.raw:
    for column, spec in taken.items():
      try:
        found |= {column: raw_values.parse(row[column], spec)} if column in row else {}
      except errors.InputError as error:
        return Example(name, error=f"{column!r}: {error}")
    return _of_object(name, found, folder, loaded)
  for feature, spec in taken.items():
    if feature in row:
      if feature not in loaded.decoders and spec["dtype"] != "string":
        try:
          found[feature] = json_form.parse(row[feature], object)
        except (errors.FileDamagedError, TypeError):
          return Example(name, error=f"{feature!r} is {row[feature]!r}, which is no number or list")
      continue
    columns = []
    while f"{feature}_{len(columns)}" in row:
      columns.append(row[f"{feature}_{len(columns)}"])
    if columns:
      try:
        found[feature] = [float(value) for value in columns]
      except (ValueError, TypeError):
        return Example(name, error=f"a column of {feature!r} has something else than a number")
  return _of_object(name, found, folder, loaded)
