"""Sends to MLflow the lines and files that runs could not send: no server, no network, no access.

  python -m trainer.tracking out/digits
  python -m trainer.tracking out/sweep/trials/* --tracking_uri=http://mlflow:5000

Each run's mlflow.json names the run in MLflow, and metrics.jsonl has the lines. For Weights &
Biases use its own command, wandb sync.
"""

from absl import flags

from trainer import errors
from trainer.tracking import mlflow_hook, run_files, sender
from trainer.tracking import record as record_lib

_TRACKING_URI = flags.DEFINE_string(
  "tracking_uri", "", "MLflow's address. Default: the training's."
)


def main(argv: list[str]) -> None:
  """Sends each named run.

  Args:
    argv: the program's name, and the folders of the runs.

  Raises:
    SettingError: there is no folder, or a folder without a record; or MLflow is missing.
    OutputError: the server does not answer, or refuses.
  """
  model_dirs = argv[1:]
  if not model_dirs:
    raise errors.SettingError("No folder of a run. Try: python -m trainer.tracking out/digits")
  for model_dir in model_dirs:
    known = record_lib.read(model_dir, "mlflow")
    if known is None:
      raise errors.SettingError(
        f"{model_dir} has no mlflow.json: no MLflowHook was in its training (run.train_hooks)."
      )
    hook = mlflow_hook.MLflowHook(_TRACKING_URI.value or known.server, known.project)
    try:
      sender.Sender(hook, model_dir).send(artifacts=run_files.ALL)
    except errors.OctetError:
      raise
    # MLflow and the packages of its stores raise errors of many kinds.
    except Exception as error:
      raise errors.OutputError(
        f"Cannot send {model_dir}: {errors.first_line(error)}. --tracking_uri and "
        "MLFLOW_TRACKING_URI name the server; MLFLOW_TRACKING_USERNAME and "
        "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, give access."
      ) from error
    print(f"{model_dir}: {hook.name} has all.")
