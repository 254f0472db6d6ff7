"""tf.contrib.learn.learn_runner: runs an experiment."""

from collections.abc import Callable
from typing import Any

from trainer.compat.contrib import learn

__all__ = ["run"]


def run(
  experiment_fn: Callable[..., learn.Experiment],
  output_dir: str | None = None,
  schedule: str | None = None,
  run_config: Any = None,
  hparams: Any = None,
) -> Any:
  """Makes an experiment and calls one of its methods.

  Args:
    experiment_fn: experiment_fn(run_config, hparams), or experiment_fn(output_dir).
    output_dir: the model_dir; not together with run_config.
    schedule: the method, "train", "evaluate" or "train_and_evaluate"; None is the last.
    run_config: a RunConfig with a model_dir.
    hparams: given to experiment_fn.

  Returns:
    What the method returns.
  """
  if (output_dir is None) == (run_config is None):
    raise ValueError(f"Give output_dir or run_config; got {output_dir!r} and {run_config!r}.")
  if run_config is None:
    experiment = experiment_fn(output_dir)
  elif not run_config.model_dir:
    raise ValueError("Must specify a model directory `model_dir` in `run_config`.")
  else:
    experiment = experiment_fn(run_config, hparams)
  if not isinstance(experiment, learn.Experiment):
    raise TypeError(
      f"Experiment builder did not return an Experiment instance, got {type(experiment)} instead."
    )
  schedule = schedule or "train_and_evaluate"
  if schedule not in ("train", "evaluate", "train_and_evaluate"):
    raise ValueError(
      f"Schedule references non-existent task {schedule}. Octet has train, evaluate and "
      "train_and_evaluate."
    )
  return getattr(experiment, schedule)()
