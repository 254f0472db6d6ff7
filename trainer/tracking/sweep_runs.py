"""The runs of a sweep in MLflow: one parent, and a child for each trial.

Each trial's hook finds the parent by the sweep's ID, or makes it. The sweep closes the parent:

    sweep_runs.finish("out/sweep", {"accuracy": 0.98}, {"best.gin": "out/sweep/best.gin"}, folders)
"""

import os
from collections.abc import Mapping

from absl import logging

from trainer.io import file_locks
from trainer.reporting import trial_file
from trainer.tracking import later, mlflow_run, trackers
from trainer.tracking import record as record_lib

_SWEEP_ID = "octet.sweep"


def parent_of(trial: trial_file.Trial, run: mlflow_run.MlflowRun) -> str:
  """Returns MLflow's ID of the parent of a trial's run, which is being made."""
  os.makedirs(trial.folder, exist_ok=True)
  # Trials start at the same time. Of machines without a common folder each has a parent.
  with open(os.path.join(trial.folder, "mlflow.lock"), "a+b", buffering=0) as file:
    file_locks.lock(file)
    parent = mlflow_run.MlflowRun(
      trial.folder, run.uri, run.experiment, trial.sweep, {_SWEEP_ID: trial.id}
    )
    parent.open([])
    return parent.run_id


def finish(
  sweep_dir: str, results: Mapping[str, float], files: Mapping[str, str], trials: Mapping[str, str]
) -> None:
  """Sends to MLflow what came of a sweep, and what its trials could not send; else a warning.

  Args:
    sweep_dir: the sweep's folder. If no trial has a run in MLflow, nothing is done.
    results: name → value of the best trial.
    files: name in MLflow → path.
    trials: folder of each run → how it ended, see `trackers`.
  """
  known = record_lib.read(sweep_dir, "mlflow")
  if known is None:
    return
  parent = mlflow_run.MlflowRun(sweep_dir, known.server, known.project, "")
  try:
    for folder, status in trials.items():
      if status != trackers.FINISHED or later.is_missing_something(folder):
        later.send(folder, known.server, status)
    parent.open([])
    parent.set_results(results, len(trials))
    parent.add_files(files)
    parent.close(trackers.FINISHED)
  except trackers.UnreachableError as error:
    logging.warning(
      "%s does not have the sweep's results: %s. The same command sends them.", parent.name, error
    )
