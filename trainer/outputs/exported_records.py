"""Moves aside what exporters remember of steps that a training has gone back before.

An exporter's record tells the best metrics so far, or the step that was exported last. Of later
steps it would keep a training that went back from exporting what is the best now. The SavedModels
stay where they are: somebody may serve them.
"""

import json
import os
from typing import Any

from absl import logging

from trainer import errors
from trainer.checkpoints import retention
from trainer.io import files, json_form, storage
from trainer.outputs import cut_off_exports, description, numbered_exports

_RECORD = "exported.json"  # {"folder": name, "metrics": {...}}, see `exporters`
_BEST = "best.json"  # {metric: value}, of the BestExporter of trainer.compat.v1
_BEGUN = cut_off_exports.BEGUN


def set_aside(model_dir: str, step: int, folder: str) -> None:
  """Moves the records of later steps; see going_back.Mover.

  A record is replaced by that of the newest earlier export, if its evaluation is known.

  Args:
    model_dir: the model_dir.
    step: the step to go back to.
    folder: where the records go, below export/.
  """
  for exports in _folders(os.path.join(model_dir, "export")):
    for name in (_BEGUN, _RECORD, _BEST):
      path = os.path.join(exports, name)
      record = _read(path)
      metrics = record.get("metrics", record)
      if metrics.get("global_step", 0) <= step:
        continue
      target = os.path.join(folder, os.path.relpath(path, model_dir))
      storage.makedirs(os.path.dirname(target))
      storage.copy(path, target, overwrite=True)
      earlier = None if name == _BEGUN else _earlier(model_dir, exports, metrics, step)
      if earlier is None:
        storage.remove(path)
        continue
      earlier_name, earlier_metrics = earlier
      of_earlier = {"folder": earlier_name, "metrics": earlier_metrics}
      with files.write_atomically(path) as file:
        file.write(json_form.dump(earlier_metrics if name == _BEST else of_earlier))


def _folders(base):
  """Yields the folders of exporters: one that is named "" uses `export` itself."""
  if not storage.isdir(base):
    return
  yield base
  for name in [name.rstrip("/") for name in storage.listdir(base)]:
    below = os.path.join(base, name)
    if not name.isdigit() and not name.startswith("."):
      yield from _folders(below)


def _read(path: str) -> dict[str, Any]:
  """Returns the content of a record; {} if there is none."""
  if not storage.exists(path):
    return {}
  try:
    return json_form.parse(storage.read(path), dict)
  except ValueError as error:
    raise errors.OutputError(f"{path} is damaged ({error}): remove it.") from error


def _earlier(model_dir, exports, metrics, step):
  """Returns (folder, metrics) of the newest export up to a step, or None.

  The evaluations of the exporter's EvalSpec are those that have the metrics of the record.
  """
  later = int(metrics["global_step"])
  own = [
    values
    for values in retention.read_all_evaluations(model_dir).values()
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
        return name, {**found[0], "global_step": exported}
      break
  logging.warning(
    "%s: what was exported up to step %d has no evaluation that is known. The next evaluation is "
    "exported as if it were the first.",
    exports,
    step,
  )
  return None


def _text(metrics):
  """Returns metrics as text, by which NaN equals NaN."""
  others = {name: value for name, value in metrics.items() if name != "global_step"}
  return json.dumps(others, sort_keys=True)
