"""A run in Weights & Biases, by its package wandb.

wandb's own process keeps all values on the disk, and sends them when the server answers.
"""

import importlib.util
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from trainer import errors
from trainer.cli import installation
from trainer.reporting import trial_file
from trainer.tracking import record as record_lib
from trainer.tracking import trackers

STEP = "global_step"

_INIT_SECONDS = 15.0  # wandb's wait for its server at the beginning; its default is 90


def require() -> None:
  """Raises SettingError if wandb is missing; does not import wandb."""
  if importlib.util.find_spec("wandb") is None:
    raise errors.SettingError(f"WandbHook needs wandb: {installation.command('wandb')}.")


class WandbRun:
  """The run of a model_dir; see `trackers.Tracker`.

  Args:
    model_dir: the folder of the run; wandb keeps its files there.
    project: its name; "" for wandb's own default.
    entity: user or team; "" for wandb's own default.
    run_name: the run's name.
    mode: "online", "offline", or "" for wandb's own default.
    tags: of the run.
  """

  name = "Weights & Biases"

  def __init__(
    self, model_dir: str, project: str, entity: str, run_name: str, mode: str, tags: Sequence[str]
  ) -> None:
    self._model_dir = model_dir
    self._settings = {
      "project": project or None,
      "entity": entity or None,
      "name": run_name,
      "tags": list(tags) or None,
    }
    self._mode = mode
    self._run: Any = None
    path = record_lib.path(model_dir, "wandb")
    self.record = record_lib.Record(path, server=entity, project=project)

  def open(self, kinds: Iterable[str]) -> Mapping[str, Iterable[int]]:
    """Makes the run, or resumes it; returns kind → the steps that wandb has."""
    import wandb

    known = record_lib.read(self._model_dir, "wandb")
    if known is not None and known.project == self.record.project:
      self.record = known
    self.record.write()
    trial = trial_file.read(self._model_dir)
    sweep = {"group": trial.sweep, "job_type": "trial"} if trial else {}
    settings = {
      **self._settings,
      **sweep,
      "id": self.record.id,
      "resume": "allow",
      "dir": self._model_dir,
      "settings": wandb.Settings(init_timeout=_INIT_SECONDS, silent=True),
    }
    try:
      self._run = wandb.init(mode=self._mode or None, **settings)
    except (wandb.errors.Error, OSError) as error:  # no server, no access
      logging.warning(
        "%s does not take the run: %s. %s keeps it; `wandb sync` sends it.",
        self.name,
        errors.first_line(error),
        os.path.join(self._model_dir, "wandb"),
      )
      self._run = wandb.init(mode="offline", **settings)
    # wandb's own step may not go back, and one step may come in several lines.
    self._run.define_metric(STEP, hidden=True)
    self._run.define_metric("*", step_metric=STEP)
    self.record.run = self._run.id
    self.record.write()
    newest = self.record.sent
    return {kind: range(newest[kind] + 1) for kind in kinds if kind in newest}

  def send(self, lines: Sequence[Mapping[str, Any]]) -> None:
    """Gives lines of metrics.jsonl to wandb; a metric is "eval_<name>/loss" there."""
    for line in lines:
      self._run.log({**trackers.values_of(line), STEP: line["step"]})

  def set_parameters(self, parameters: Mapping[str, str]) -> None:
    """Gives wandb the parameters, numbers as numbers."""
    values = {name: _number(text) for name, text in parameters.items()}
    self._run.config.update(values, allow_val_change=True)

  def add_files(self, files: Mapping[str, str]) -> None:
    """Gives wandb the files as artifacts with versions: each folder, and all single files."""
    import wandb

    # Not Run.save: it links to the files, and some files are temporary.
    single = wandb.Artifact(f"files-{self.record.id}", type="files")
    for name, path in files.items():
      if not os.path.isdir(path):
        single.add_file(path, name)
        continue
      kind = name.partition("/")[0]
      folder = wandb.Artifact(f"{kind}-{self.record.id}", type=kind)
      folder.add_dir(path)
      self._run.log_artifact(folder)
    self._run.log_artifact(single)

  def close(self, status: str) -> None:
    """Notes how the training ended. wandb's own process sends the rest."""
    if status != trackers.FINISHED:
      self._run.finish(exit_code=1)
    # A finished training still sends its export, and wandb finishes with the process.


def _number(text):
  """Returns the number that a gin text is, or the text."""
  try:
    return json.loads(text)
  except ValueError:
    return text
