"""Sends to MLflow the lines and files that a run could not send.

later.send("out/digits")
"""

from trainer import errors
from trainer.reporting import metrics_file
from trainer.tracking import mlflow_run, run_files, sender
from trainer.tracking import record as record_lib


def send(model_dir: str, tracking_uri: str = "", status: str = "") -> str:
  """Sends the lines and files of a run to MLflow; returns the tracker's name, with its address.

  Args:
    model_dir: the folder of the run, with an mlflow.json.
    tracking_uri: an address instead of the one in mlflow.json.
    status: how the training ended; "" if unknown.

  Raises:
    SettingError: the run has no record, or MLflow is missing.
    UnreachableError: the server does not answer.
  """
  known = record_lib.read(model_dir, "mlflow")
  if known is None:
    raise errors.SettingError(
      f"{model_dir} has no mlflow.json: no MLflowHook was in its training (run.train_hooks)."
    )
  run = mlflow_run.MlflowRun(
    model_dir, tracking_uri or known.server, known.project, run_files.name_of(model_dir)
  )
  sending = sender.Sender(run, model_dir)
  sending.ask(lambda: run.set_parameters(run_files.parameters(model_dir)))
  sending.ask(lambda: run_files.send(run, model_dir, run_files.ALL))
  if status:
    sending.ask(lambda: run.close(status))
  sending.send()
  return run.name


def is_missing_something(model_dir: str) -> bool:
  """Whether MLflow lacks lines of a run, as far as its folder knows."""
  known = record_lib.read(model_dir, "mlflow")
  if known is None:
    return False
  newest = {line["kind"]: line["step"] for line in metrics_file.read(model_dir)}
  return any(known.sent.get(kind, -1) < step for kind, step in newest.items())
