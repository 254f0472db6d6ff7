"""Predictions as files: JSON lines, CSV, or a contact sheet.

    predictions.jsonl    {"input": "a.jpg", "class": 3, "class_name": "cat", "probabilities": [...]}
                         {"input": "b.jpg", "error": "..."}
    predictions.csv      input,class,class_name,probabilities_0,...,error
    predictions.png      the first images with their classes, see `outputs.contact_sheet`

An entry for each example, in order, also for those that cannot be used.
"""

import contextlib
import csv
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.cli import installation
from trainer.io import files, storage
from trainer.outputs import contact_sheet, predictions
from trainer.serving.loaded_model import LoadedModel

ENDINGS = (".jsonl", ".csv", ".png")
SHEET_IMAGES = 24
_MOST_COLUMNS = 10_000


def check_path(path: str, loaded: LoadedModel) -> None:
  """SettingError unless the ending is known, and the model's outputs fit into such a file."""
  ending = os.path.splitext(path)[1]
  if path != "-" and ending not in ENDINGS:
    raise errors.SettingError(
      f"--output={path}: expected a name that ends in {', '.join(ENDINGS)}, or - for JSON lines "
      "on standard output."
    )
  if ending == ".csv":
    _columns(loaded)
  if ending == ".png":
    classes = loaded.outputs.get("class")
    if classes is None or len(classes["shape"]) != 1 or not loaded.decoders:
      raise errors.SettingError(
        f"--output={path} is a contact sheet, which needs a model of images that predicts a "
        f'"class"; this one predicts {", ".join(loaded.outputs)}. Use .jsonl.'
      )


@contextlib.contextmanager
def writer(path: str, loaded: LoadedModel) -> Iterator["_Lines | _Table | _Sheet"]:
  """Yields an object with `add(names, errors, outputs, features)`, a batch at a time.

  The file is there when all was written, and not before.

  Raises:
    OutputError: it cannot be written.
  """
  if path == "-":
    yield _Lines(sys.stdout, loaded)
    sys.stdout.flush()
    return
  try:
    storage.makedirs(os.path.dirname(path) or ".")
    if path.endswith(".png"):
      sheet = _Sheet(loaded)
      yield sheet
      sheet.write(path)
      return
    with files.write_atomically(path) as file:
      yield _Table(file, loaded) if path.endswith(".csv") else _Lines(file, loaded)
  except (tf.errors.OpError, OSError) as error:
    if isinstance(error, errors.OctetError):
      raise
    raise errors.OutputError(f"{path} (--output) cannot be written: {error}") from error


def rows(
  names: Sequence[str],
  failed: Mapping[int, str],
  outputs: Mapping[str, np.ndarray],
  class_names: Sequence[str] | None,
) -> Iterator[dict]:
  """An entry for each example: what was predicted, in plain Python, or the error."""
  plain = {name: predictions.to_json(array) for name, array in outputs.items()}
  row = 0
  for place, name in enumerate(names):
    if place in failed:
      yield {"input": name, "error": failed[place]}
      continue
    entry = {"input": name}
    for key, values in plain.items():
      entry[key] = values[row]
      if key == "class" and class_names and isinstance(values[row], int):
        entry["class_name"] = (
          class_names[values[row]] if values[row] < len(class_names) else str(values[row])
        )
    yield entry
    row += 1


class _Lines:
  """JSON lines."""

  def __init__(self, file, loaded):
    self._file, self._names = file, loaded.description["class_names"]

  def add(self, names, failed, outputs, features):
    """Writes a batch."""
    del features
    for entry in rows(names, failed, outputs, self._names):
      self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")


class _Table:
  """CSV, with a column for each number."""

  def __init__(self, file, loaded):
    self._names = loaded.description["class_names"]
    self._writer = csv.DictWriter(_File(file), _columns(loaded), lineterminator="\n")
    self._writer.writeheader()

  def add(self, names, failed, outputs, features):
    """Writes a batch."""
    del features
    for entry in rows(names, failed, outputs, self._names):
      flat = {}
      for key, value in entry.items():
        if isinstance(value, list):
          flat |= {f"{key}_{place}": number for place, number in enumerate(value)}
        else:
          flat[key] = value
      self._writer.writerow(flat)


class _File:
  """What csv writes to; a GFile gives back nothing, which csv would hand on."""

  def __init__(self, file):
    self.write = file.write


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
    columns += [f"{name}_{place}" for place in range(shape[1])] if len(shape) == 2 else [name]
    if name == "class" and loaded.description["class_names"]:
      columns.append("class_name")
  return [*columns, "error"]


class _Sheet:
  """A contact sheet of the first images."""

  def __init__(self, loaded):
    self._loaded = loaded
    self._images, self._captions = [], []

  def add(self, names, failed, outputs, features):
    """Keeps images, as many as there is room for."""
    feature = next(iter(self._loaded.decoders))
    names_ = self._loaded.description["class_names"]
    good = [entry for entry in rows(names, failed, outputs, names_) if "error" not in entry]
    for entry, image in zip(good, features.get(feature, ()), strict=True):
      if len(self._images) == SHEET_IMAGES:
        return
      title = entry.get("class_name", str(entry["class"]))
      if "probabilities" in entry:
        title += f" {100 * entry['probabilities'][entry['class']]:.1f} %"
      self._images.append(image)
      self._captions.append(contact_sheet.Caption([title, os.path.basename(entry["input"])]))

  def write(self, path):
    """Draws the sheet."""
    if not self._images:
      raise errors.InputError("There is no image for the contact sheet.")
    if not contact_sheet.write(path, self._images, self._captions):
      raise errors.SettingError(
        f"--output={path} needs matplotlib: `{installation.command('plot')}` brings it."
      )
