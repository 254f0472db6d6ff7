"""A hook that sends a run to Weights & Biases.

    run.train_hooks = [@WandbHook()]
    WandbHook.project = "digits"
    WandbHook.mode = "offline"

Layout: <model_dir>/wandb has wandb's files; see `trainer.tracking.record` for wandb.json.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from trainer.config import gin_names
from trainer.settings import setting_types
from trainer.tracking import hook, run_files, trackers, wandb_run


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

  project: str = ""
  entity: str = ""
  run_name: str = ""
  mode: Annotated[str, setting_types.one_of("online", "offline", "")] = ""
  tags: Sequence[str] = ()
  artifacts: Sequence[Annotated[str, setting_types.one_of(*run_files.ALL)]] = run_files.ALL
  seconds: setting_types.Positive = 5.0

  def __post_init__(self) -> None:
    wandb_run.require()

  def make_tracker(self, model_dir: str) -> trackers.Tracker:
    """Returns the run of a model_dir in Weights & Biases."""
    return wandb_run.WandbRun(
      model_dir,
      self.project,
      self.entity,
      self.run_name or run_files.name_of(model_dir),
      self.mode,
      self.tags,
    )
