"""Reads examples from files: images, folders of images, TFRecords, CSV, JSON lines, Parquet.

    examples, count = read(["photos/*.jpg"], loaded)

Examples keep their order, and an unusable example has an error. `serving.features` makes batches of
them.

A line of CSV or JSON has the path of a file for a feature with a decoder, and numbers or texts for
other features. A relative path begins at the folder of the lines. In CSV, a feature `x` of several
numbers has columns x_0, x_1 and so on, or a JSON list in the column x. If the export takes raw
columns and texts (from_raw), the line has these.
"""

import collections
import csv
import dataclasses
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

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
  """An example before anything reads its files and checks its values.

  Attributes:
    name: for messages: a path, a line or a record.
    values: feature → value; or column → value.
    paths: feature → path of its encoded file.
    record: a serialised tf.train.Example with all features, or None.
    error: the reason for an unusable example, or None.
  """

  name: str
  values: dict[str, Any] = dataclasses.field(default_factory=dict)
  paths: dict[str, str] = dataclasses.field(default_factory=dict)
  record: bytes | None = None
  error: str | None = None


def read(
  inputs: Sequence[str], loaded: LoadedModel, output: str = "-"
) -> tuple[Iterable[Example], int | None]:
  """Reads the examples of files.

  Args:
    inputs: paths, globs and folders, in the order of the examples; or "-" for standard input, where
      a line is a JSON object or the path of an image.
    loaded: the model for the prediction.
    output: the file of the predictions; "-" for standard output.

  Returns:
    (examples, their number). The number is None if only reading the files tells it.

  Raises:
    InputError: there are no such files.
    SettingError: there are images, and the model takes something else; or output is one of the
      files.
  """
  if list(inputs) == ["-"]:
    return _from_lines(sys.stdin, "standard input", "", loaded), None
  paths = [path for pattern in inputs for path in _listed(pattern)]
  if os.path.abspath(output) in map(os.path.abspath, paths):
    raise errors.SettingError(
      f"--output={output} is a file of --input, and the predictions would replace it: give another "
      "name."
    )
  images = [path for path in paths if path.lower().endswith(IMAGES)]
  feature = image_feature(loaded) if images else None
  # An image is one example; any other file has a number of examples that only its content tells.
  count = len(paths) if images and len(images) == len(paths) else None
  return (example for path in paths for example in _of_file(path, loaded, feature)), count


def image_feature(loaded: LoadedModel) -> str:
  """Returns the feature that takes an image; SettingError unless it is the model's only feature."""
  if len(loaded.decoders) == 1 and set(loaded.decoders) == set(loaded.inputs):
    return next(iter(loaded.decoders))
  decodes = ", ".join(loaded.decoders) or "nothing"
  raise errors.SettingError(
    f"--input has images, and the model takes {', '.join(sorted(loaded.inputs))}; it decodes "
    f"{decodes}. Give JSON lines or TFRecords with all features; or export again with an input_fn "
    "that names its decoder (trainer.mark_decodable)."
  )


def _listed(pattern):
  if pattern == "-":
    raise errors.SettingError("--input=- is standard input, and excludes any other --input.")
  if storage.isdir(pattern):
    endings = {
      os.path.join(folder, name): os.path.splitext(name)[1].lower() or "without an ending"
      for folder, _, names in storage.walk(pattern)
      for name in names
      if not name.startswith(".")
    }
    found = sorted(path for path, ending in endings.items() if ending in IMAGES)
    left_out = collections.Counter(endings.values())
    ignored = ", ".join(f"{n} {each}" for each, n in left_out.most_common() if each not in IMAGES)
    if not found:
      raise errors.InputError(
        f"The folder {pattern} (--input) has no images: expected {', '.join(IMAGES)} files; found "
        f"{ignored or 'no file'}."
      )
    if ignored:
      logging.warning("Ignored files in %s: %s; expected %s.", pattern, ignored, ", ".join(IMAGES))
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
      error=f"unknown kind of file: expected {', '.join((*IMAGES, *LINES, PARQUET))}, or a name "
      'with "tfrecord" in it',
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
    except tf.errors.OpError as error:  # a damaged length hides where the next record begins
      yield Example(name, error=f"damaged; the rest of this file is lost: {error.message}")
      return
    yield Example(name, record=record)
    number += 1


def _from_file_of_lines(path, ending, loaded):
  folder = os.path.dirname(path)
  try:
    with storage.opened(path) as file:
      # Spreadsheets begin a file with a byte-order mark. It is no part of the first name.
      lines = (line.removeprefix("\ufeff") for line in file)
      if ending == ".jsonl":
        yield from _from_lines(lines, path, folder, loaded)
        return
      csv.field_size_limit(_FIELD_LIMIT)
      settings = dict(delimiter="\t", quoting=csv.QUOTE_NONE) if ending == ".tsv" else {}
      reader = csv.DictReader(lines, **settings)
      for row in reader:
        yield _of_row(f"{path}, line {reader.line_num}", row, folder, loaded)
  except (tf.errors.OpError, UnicodeDecodeError, csv.Error) as error:
    yield Example(path, error=f"unreadable: {error}")


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
    yield Example(path, error=f"unreadable: {errors.first_line(error)}")


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
  """Makes an example of a dict of values, and passes over values that the model does not take."""
  example = Example(name)
  taken = loaded.takes(row)
  if missing := [repr(feature) for feature in taken if feature not in row]:
    return Example(name, error=f"no {', '.join(missing)}; there is {', '.join(map(str, row))}")
  for feature in taken:
    value = row[feature]
    if feature in loaded.decoders and isinstance(value, str):
      example.paths[feature] = value if "://" in value else os.path.join(folder, value)
    else:
      example.values[feature] = value
  return example


def _of_row(name, row, folder, loaded):
  """Makes an example of a row of CSV, from texts."""
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
          return Example(name, error=f"{feature!r} is {row[feature]!r}; expected a number or list")
      continue
    columns = []
    while f"{feature}_{len(columns)}" in row:
      columns.append(row[f"{feature}_{len(columns)}"])
    if columns:
      try:
        found[feature] = [float(value) for value in columns]
      except (ValueError, TypeError):
        return Example(name, error=f"a column of {feature!r} has another value than a number")
  return _of_object(name, found, folder, loaded)
