"""The records of exporters: the metrics of each export, in its SavedModel.

    <number>/assets.extra/exported.json    {"global_step": 100, "loss": 0.5, ...}
    exported.json                          of version 0.1.0: {"folder": name, "metrics": {...}} of
                                           the newest export
    ../NAME.best.json                      {metric: value}, of the BestExporter of trainer.compat.v1

The SavedModel is published with its record. So a process that dies leaves both, or none.
"""

import os
from collections.abc import Iterator
from typing import Any

from trainer.io import json_form, storage
from trainer.outputs import description, numbered_exports

EXPORTED = "exported.json"

_METRICS = {"global_step": float, ...: float}
_REMEDY = "remove it; the record of past exports is then lost"


def read(folder: str) -> dict[str, Any] | None:
  """Reads the newest record in an exporter's folder.

  Returns:
    {"folder": name of the SavedModel, "metrics": {...}}; None before the first export.

  Raises:
    FileDamagedError: the file is damaged.
  """
  for name in reversed(numbered_exports.names(folder) if storage.isdir(folder) else []):
    if description.is_whole(os.path.join(folder, name)):
      metrics = json_form.read(_path(folder, name), _METRICS, _REMEDY)
      if metrics is not None:
        return {"folder": name, "metrics": metrics}
  form = {"folder": str, "metrics": _METRICS}
  return json_form.read(os.path.join(folder, EXPORTED), form, _REMEDY)


def _path(folder, name):
  return os.path.join(folder, name, "assets.extra", EXPORTED)


def best_file(folder: str) -> str:
  """Returns the path of the best metrics of a BestExporter of trainer.compat.v1.

  It is outside of the exporter's folder: there, programs take each name for a SavedModel.
  """
  return f"{folder.rstrip('/')}.best.json"


def set_aside(model_dir: str, step: int, folder: str) -> None:
  """Moves aside the records of steps that a training has gone back before; see going_back.Mover.

  A record of later steps would prevent exports of models that are now the best. The record of the
  newest earlier export then counts. The SavedModels stay: they may be in service.

  Args:
    model_dir: the model_dir.
    step: the step to go back to.
    folder: where the records go, below export/.
  """
  for exports in _folders(os.path.join(model_dir, "export")):
    of_exports = [_path(exports, name) for name in numbered_exports.names(exports)]
    for path in (os.path.join(exports, EXPORTED), best_file(exports), *of_exports):
      record = json_form.read(path, dict, "remove it") or {}
      if record.get("metrics", record).get("global_step", 0) > step:
        target = os.path.join(folder, os.path.relpath(path, model_dir))
        storage.makedirs(os.path.dirname(target))
        storage.rename(path, target, overwrite=True)


def _folders(base: str) -> Iterator[str]:
  """Yields the folders of exporters: an exporter with the name "" uses `export` itself."""
  if not storage.isdir(base):
    return
  yield base
  for name in numbered_exports.listed(base):
    if not name.isdigit() and not name.startswith("."):
      yield from _folders(os.path.join(base, name))
