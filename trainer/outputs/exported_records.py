"""The records of exporters, in the folder of their SavedModels.

    exported.json     the newest SavedModel's folder, and its metrics with the step, for `exporters`
    ../NAME.best.json {metric: value}, of the BestExporter of trainer.compat.v1
    exporting.json    {"checkpoint": name, "metrics": {...}, "there": [what the folder had before]},
                      for as long as an export is pending

A SavedModel and its record are two files. A process that dies between them leaves a SavedModel
without a record. Without exporting.json the next process would export the same checkpoint once
more:

    pending = PendingExport.begin("out/digits/export/best", "out/digits/model.ckpt-100", metrics)
    ...                                                      # exports, and records it
    pending.end()

    pending = PendingExport.find("out/digits/export/best")   # None, if it has ended
    pending.exported()                                       # else the SavedModel, if there is one
"""

import dataclasses
import json
import os
from collections.abc import Iterator
from typing import Any, Self

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.io import files, json_form, storage
from trainer.outputs import description, numbered_exports
from trainer.reporting import evaluations_file

EXPORTED = "exported.json"
_PENDING = "exporting.json"

_METRICS = {"global_step": float, ...: float}
_FORM = {"checkpoint": str, "metrics": _METRICS, "there": list[str]}


def read(folder: str) -> dict[str, Any] | None:
  """Reads exported.json: {"folder": name, "metrics": {...}}; None before the first export.

  Raises:
    FileDamagedError: the file is damaged.
  """
  return json_form.read(
    os.path.join(folder, EXPORTED),
    {"folder": str, "metrics": _METRICS},
    "remove it; the record of past exports is then lost",
  )


def best_file(folder: str) -> str:
  """Returns the path of the best metrics of a BestExporter of trainer.compat.v1.

  It is outside of the exporter's folder: there, programs take each name for a SavedModel.
  """
  return f"{folder.rstrip('/')}.best.json"


@dataclasses.dataclass(frozen=True)
class PendingExport:
  """An unfinished export.

  Attributes:
    folder: of the SavedModels.
    checkpoint: the name of the checkpoint, without its folder.
    metrics: of its evaluation.
    there: the names in the folder before the export.
  """

  folder: str
  checkpoint: str
  metrics: dict[str, float]
  there: list[str]

  @classmethod
  def begin(cls, folder: str, checkpoint: str, metrics: dict[str, float]) -> Self:
    """Records that the export of a checkpoint (its path) begins.

    Raises:
      OutputError: it cannot write the record.
    """
    path = os.path.join(folder, _PENDING)
    try:
      storage.makedirs(folder)
      there = sorted(numbered_exports.listed(folder))
    except (tf.errors.OpError, OSError) as error:
      raise errors.OutputError(
        f"Cannot write {path} (in --model_dir): {files.reason(error)}."
      ) from error
    pending = cls(folder, os.path.basename(checkpoint), metrics, there)
    json_form.write(path, {name: getattr(pending, name) for name in _FORM})
    return pending

  @classmethod
  def find(cls, folder: str) -> Self | None:
    """Returns the unfinished export to a folder.

    Raises:
      FileDamagedError: its record is damaged.
    """
    found = json_form.read(os.path.join(folder, _PENDING), _FORM, "remove it")
    return None if found is None else cls(folder, **found)

  def new(self) -> list[str]:
    """Returns the names of the files and folders that are new since the export began."""
    return [name for name in numbered_exports.listed(self.folder) if name not in self.there]

  def exported(self) -> str | None:
    """Returns the name of the checkpoint's SavedModel, if a whole one is new since it began."""
    for name in numbered_exports.sort(self.new()):
      folder = os.path.join(self.folder, name)
      if description.is_whole(folder):
        found = description.read(folder).get("checkpoint", "")
        if os.path.basename(found) == self.checkpoint:
          return name
    return None

  def remove_incomplete(self) -> None:
    """Removes incomplete SavedModels."""
    new = self.new()
    # gs:// cannot rename a folder, so its files arrive one by one.
    exports = [os.path.join(self.folder, name) for name in numbered_exports.sort(new)]
    incomplete = [folder for folder in exports if not description.is_whole(folder)]
    unpublished = [
      os.path.join(self.folder, name) for name in new if name.startswith(files.WRITING)
    ]
    for folder in incomplete + unpublished:
      storage.rmtree(folder)

  def end(self) -> None:
    """Removes the record: the export has ended."""
    storage.remove(os.path.join(self.folder, _PENDING))


def set_aside(model_dir: str, step: int, folder: str) -> None:
  """Moves aside the records of steps that a training has gone back before; see going_back.Mover.

  A record has the best metrics so far, or the step of the last export. After a training went back,
  a record of later steps would prevent exports of models that are now the best. So the newest
  earlier export takes its place, if its evaluation is known. The SavedModels stay: they may be in
  service.

  Args:
    model_dir: the model_dir.
    step: the step to go back to.
    folder: where the records go, below export/.
  """
  for exports in _folders(os.path.join(model_dir, "export")):
    pending, best = os.path.join(exports, _PENDING), best_file(exports)
    for path in (pending, os.path.join(exports, EXPORTED), best):
      record = json_form.read(path, dict, "remove it") or {}
      metrics = record.get("metrics", record)
      if metrics.get("global_step", 0) <= step:
        continue
      target = os.path.join(folder, os.path.relpath(path, model_dir))
      storage.makedirs(os.path.dirname(target))
      storage.copy(path, target, overwrite=True)
      earlier = None if path == pending else _earlier(model_dir, exports, metrics, step)
      if earlier is None:
        storage.remove(path)
      else:
        json_form.write(path, earlier["metrics"] if path == best else earlier)


def _folders(base: str) -> Iterator[str]:
  """Yields the folders of exporters: an exporter with the name "" uses `export` itself."""
  if not storage.isdir(base):
    return
  yield base
  for name in numbered_exports.listed(base):
    if not name.isdigit() and not name.startswith("."):
      yield from _folders(os.path.join(base, name))


def _earlier(model_dir, exports, metrics, step):
  """Returns exported.json's content of the newest export up to a step, or None.

  The exporter's EvalSpec is the one with an evaluation of the record's metrics.
  """
  later = int(metrics["global_step"])
  own = [
    values
    for values in evaluations_file.read_all(model_dir).values()
    if _text(values.get(later, {})) == _text(metrics)
  ]
  for name in reversed(numbered_exports.names(exports)):
    folder = os.path.join(exports, name)
    if not description.is_whole(folder):
      continue
    exported = description.read(folder).get("global_step")
    if exported is not None and exported <= step:
      found = [values[exported] for values in own if exported in values]
      if found:
        return {"folder": name, "metrics": {**found[0], "global_step": exported}}
      break
  logging.warning(
    "%s: the exports up to step %d have no known evaluation. The next evaluation counts as the "
    "first.",
    exports,
    step,
  )
  return None


def _text(metrics):
  """Returns metrics as text, so that NaN equals NaN."""
  others = {name: value for name, value in metrics.items() if name != "global_step"}
  return json.dumps(others, sort_keys=True)
