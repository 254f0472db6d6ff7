"""A hook that sends a run to MLflow.

    run.train_hooks = [@MLflowHook()]
    MLflowHook.tracking_uri = "http://127.0.0.1:5000"
    MLflowHook.experiment = "digits"

Layout: see `trainer.tracking.record`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated

from trainer import errors
from trainer.config import gin_names
from trainer.settings import setting_types
from trainer.tracking import hook, mlflow_process, mlflow_run, run_files, trackers

_SCHEMES = (
  *("http", "https", "file", "databricks", "uc"),
  *("sqlite", "postgresql", "mysql", "mssql"),
)


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(eq=False)
class MLflowHook(hook.TrackingHook):
  """Sends a run to MLflow: parameters, metrics by step, files.

  A training that goes on from a checkpoint goes on in its run. The trials of a sweep are children
  of one run.

  Args:
    tracking_uri: of the server or store, such as "http://127.0.0.1:5000" or "sqlite:///runs.db";
      "" for the environment variable MLFLOW_TRACKING_URI, or MLflow's own default. Users and
      passwords belong in MLflow's environment variables.
    experiment: its name; "" for MLFLOW_EXPERIMENT_NAME, or "Default".
    run_name: "" for the name of model_dir.
    tags: of the run, name → text.
    artifacts: kinds of files to send: "config", "report", "export".
    seconds: between two looks at the run's new lines.

  Raises:
    SettingError: MLflow is missing, or a value cannot work.
  """

  tracking_uri: str = ""
  experiment: str = ""
  run_name: str = ""
  tags: Mapping[str, str] | None = None
  artifacts: Sequence[Annotated[str, setting_types.one_of(*run_files.ALL)]] = run_files.ALL
  seconds: setting_types.Positive = 5.0

  def __post_init__(self) -> None:
    mlflow_run.require()
    scheme, colon, _ = self.tracking_uri.partition(":")
    if colon and scheme.partition("+")[0] not in _SCHEMES:
      raise errors.SettingError(
        f"MLflowHook.tracking_uri = {self.tracking_uri!r}: expected an address such as "
        f"'http://127.0.0.1:5000' or 'sqlite:///runs.db'; it may begin with {', '.join(_SCHEMES)}."
      )

  def make_tracker(self, model_dir: str) -> trackers.Tracker:
    """Returns the run of a model_dir in MLflow."""
    mlflow_process.prepare()  # MLflow's import takes as long as the training's first step
    return mlflow_run.MlflowRun(
      model_dir,
      self.tracking_uri,
      self.experiment,
      self.run_name or run_files.name_of(model_dir),
      self.tags,
    )
