"""Sends to MLflow the lines and files that runs could not send: no server, no network, no access.

  python -m trainer.tracking out/digits
  python -m trainer.tracking out/sweep/trials/* --tracking_uri=http://mlflow:5000

Each run's mlflow.json names the run in MLflow, and metrics.jsonl has the lines. For Weights &
Biases use its own command, wandb sync.
"""

from absl import flags

from trainer import errors
from trainer.tracking import later, trackers

_TRACKING_URI = flags.DEFINE_string(
  "tracking_uri", "", "MLflow's address. Default: the training's."
)


def main(argv: list[str]) -> None:
  """Sends each named run.

  Args:
    argv: the program's name, and the folders of the runs.

  Raises:
    SettingError: there is no folder, or a folder without a record.
    OutputError: the server does not answer, or refuses.
  """
  model_dirs = argv[1:]
  if not model_dirs:
    raise errors.SettingError("No folder of a run. Try: python -m trainer.tracking out/digits")
  for model_dir in model_dirs:
    try:
      print(f"{model_dir}: {later.send(model_dir, _TRACKING_URI.value)} has all.")
    except (trackers.UnreachableError, trackers.RefusedError) as error:
      raise errors.OutputError(
        f"Cannot send {model_dir}: {error}. --tracking_uri and MLFLOW_TRACKING_URI name the server."
      ) from error
