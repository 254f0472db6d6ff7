"""The runs of a sweep in MLflow: one parent, and a child for each trial.

The first trial's hook makes the parent, and the other trials' hooks find it. The sweep closes the
parent:

    sweep_runs.finish("out/sweep", {"accuracy": 0.98}, {"best.gin": "out/sweep/best.gin"}, folders)
"""

from collections.abc import Mapping

from absl import logging

from trainer import errors
from trainer.tracking import later, mlflow_run, trackers
from trainer.tracking import record as record_lib


def finish(
  sweep_dir: str, results: Mapping[str, float], files: Mapping[str, str], trials: Mapping[str, str]
) -> None:
  """Sends the results of a sweep to MLflow, and the lines that its trials could not send.

  A failure is a warning. If no trial had MLflow's hook, the function does nothing. It leaves out a
  trial that failed before its hook began.

  Args:
    sweep_dir: the sweep's folder.
    results: name → value of the best trial.
    files: name in MLflow → path.
    trials: folder of each run → how it ended, see `trackers`.
  """
  name = "MLflow"
  try:
    known = {folder: record_lib.read(folder, "mlflow") for folder in (sweep_dir, *trials)}
    first = next(filter(None, known.values()), None)
    if first is None:
      return
    parent = mlflow_run.MlflowRun(sweep_dir, first.server, first.project, "")
    name = parent.name
    for folder, status in trials.items():
      if known[folder] and (status != trackers.FINISHED or later.is_missing_something(folder)):
        later.send(folder, first.server, status)
    parent.open([])
    parent.set_results(results, len(trials))
    parent.add_files(files)
    parent.close(trackers.FINISHED)
  # A damaged mlflow.json is an OctetError.
  except (trackers.UnreachableError, trackers.RefusedError, errors.OctetError) as error:
    logging.warning(
      "%s does not have the sweep's results: %s. The same command sends them.", name, error
    )
