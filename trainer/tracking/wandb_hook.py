"""A hook that sends a run to Weights & Biases.

    run.train_hooks = [@WandbHook()]
    WandbHook.project = "digits"
    WandbHook.mode = "offline"

wandb's own process keeps all values on the disk, and sends them when the server answers.

Layout: <model_dir>/wandb has wandb's files; see `trainer.tracking.record` for wandb.json.
"""

import dataclasses
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from trainer import errors
from trainer.cli import installation
from trainer.config import gin_names
from trainer.reporting import trial_file
from trainer.settings import setting_types
from trainer.tracking import hook, run_files
from trainer.tracking import record as record_lib

STEP = "global_step"

_INIT_SECONDS = 15.0  # wandb's wait for its server at the beginning; its default is 90


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(eq=False)
class WandbHook(hook.TrackingHook):
  """Sends a run to Weights & Biases: parameters, metrics by step, files.

  A training that goes on from a checkpoint goes on in its run. The trials of a sweep are a group.

  Args:
    project: its name; "" for wandb's own default.
    entity: user or team; "" for wandb's own default.
    run_name: "" for the name of model_dir.
    mode: "online", "offline" to keep all on this machine until `wandb sync`, or "" for the
      environment variable WANDB_MODE, or "online".
    tags: of the run.
    artifacts: kinds of files to send: "config", "report", "export".
    seconds: between two looks at the run's new lines.

  Raises:
    SettingError: wandb is missing, or a value cannot work.
  """

  name = "Weights & Biases"

  project: str = ""
  entity: str = ""
  run_name: str = ""
  mode: Annotated[str, setting_types.one_of("online", "offline", "")] = ""
  tags: Sequence[str] = ()
  artifacts: Sequence[Annotated[str, setting_types.one_of(*run_files.ALL)]] = run_files.ALL
  seconds: setting_types.Positive = 5.0

  def __post_init__(self) -> None:
    if importlib.util.find_spec("wandb") is None:
      raise errors.SettingError(f"WandbHook needs wandb: {installation.command('wandb')}.")
    self._run: Any = None
    self._model_dir = ""

  def open(self, model_dir: str, kinds: Iterable[str]) -> Mapping[str, Iterable[int]]:
    """Makes the run, or resumes it; returns kind → the steps that wandb has."""
    # After a training, `finished` goes on with the run of this process.
    if self._run is None or self._model_dir != model_dir:
      self._model_dir = model_dir
      known = record_lib.read(model_dir, "wandb")
      self.record = (
        known
        if known and known.project == self.project
        else record_lib.Record(
          record_lib.path(model_dir, "wandb"), server=self.entity, project=self.project
        )
      )
      self._run = self._init()
      # wandb's own step may not go back, and one step may come in several lines.
      self._run.define_metric(STEP, hidden=True)
      self._run.define_metric("*", step_metric=STEP)
      self.record.run = self._run.id
      self.record.write()
    newest = self.record.sent
    return {kind: range(newest[kind] + 1) for kind in kinds if kind in newest}

  def _init(self):
    import wandb

    trial = trial_file.read(self._model_dir)
    return wandb.init(
      project=self.project or None,
      entity=self.entity or None,
      name=self.run_name or run_files.name_of(self._model_dir),
      mode=self.mode or None,
      tags=list(self.tags) or None,
      group=trial.sweep if trial else None,
      job_type="trial" if trial else None,
      id=self.record.id,
      resume="allow",
      dir=self._model_dir,
      settings=wandb.Settings(init_timeout=_INIT_SECONDS, silent=True),
    )

  def send(self, lines: Sequence[Mapping[str, Any]]) -> None:
    """Gives lines of metrics.jsonl to wandb; a metric is "eval_<name>/loss" there."""
    for line in lines:
      self._run.log({**hook.values_of(line), STEP: line["step"]})

  def set_parameters(self, parameters: Mapping[str, str]) -> None:
    """Gives wandb the parameters, numbers as numbers."""
    values = {name: _number(text) for name, text in parameters.items()}
    self._run.config.update(values, allow_val_change=True)

  def add_files(self, files: Mapping[str, str]) -> None:
    """Gives wandb the files as an artifact with versions."""
    import wandb

    # Not Run.save: it links to the files, and some files are temporary.
    artifact = wandb.Artifact(f"files-{self.record.id}", type="files")
    for name, path in files.items():
      (artifact.add_dir if os.path.isdir(path) else artifact.add_file)(path, name=name)
    self._run.log_artifact(artifact)

  def close(self, status: str) -> None:
    """Notes how the training ended. wandb's own process sends the rest."""
    if status != hook.FINISHED:
      self._run.finish(exit_code=1)
      self._run = None
    # A finished training still sends its export, and wandb finishes with the process.


def _number(text):
  """Returns the number that a gin text is, or the text."""
  try:
    return json.loads(text)
  except ValueError:
    return text
