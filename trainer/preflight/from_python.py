"""Preflight of a model_fn from Python, without gin."""

from collections.abc import Callable, Mapping
from typing import Any

from trainer import experiment as experiment_lib
from trainer.preflight import bindings, check, compiler
from trainer.preflight import topology as topology_lib


def check_steps(
  model_fn: Callable,
  *topologies: str,
  train_input_fn: Callable | None = None,
  eval_input_fn: Callable | None = None,
  predict_input_fn: Callable | None = None,
  params: Mapping[str, Any] | None = None,
  train_batch_size: int | None = None,
  eval_batch_size: int | None = None,
  predict_batch_size: int | None = None,
  train_per_core_batch_size: int | None = None,
  eval_per_core_batch_size: int | None = None,
  predict_per_core_batch_size: int | None = None,
  precision: str = "float32",
  train_steps: int | str | None = None,
  search: str = "auto",
  timeout_seconds: float = 900.0,
  save: str = "",
) -> list[check.StepReport]:
  """Compiles the steps of a model_fn for TPUs: all steps with an input_fn and a batch size.

  Args:
    model_fn: see `trainer.spec`, or the result of `trainer.model_fn_from_keras`.
    *topologies: "v3-8", "v5e-8", ..., or "xla:8"; none for "v3-8".
    train_input_fn: the input_fn of the training.
    eval_input_fn: the input_fn of evaluations.
    predict_input_fn: the input_fn of predictions; default: eval_input_fn.
    params: dict for the model_fn and all input_fns.
    train_batch_size: examples in a training step of all cores together.
    eval_batch_size: the same of an evaluation step.
    predict_batch_size: the same of a prediction step; default: eval_batch_size.
    train_per_core_batch_size: of one core, instead of train_batch_size.
    eval_per_core_batch_size: of one core, instead of eval_batch_size.
    predict_per_core_batch_size: of one core, instead of predict_batch_size.
    precision: "float32" or "bfloat16".
    train_steps: the length of the training, for schedules of the learning rate.
    search: "auto" searches for a batch that fits if the step does not, "always", "never".
    timeout_seconds: for each compilation.
    save: a folder that gets the compiled programs, for runs to find; "" for none.

  Returns:
    A report for each topology and step. `trainer.preflight.text` writes one as text.

  Raises:
    SettingError: an argument is wrong, or the extra [preflight] is missing.
  """
  found = [topology_lib.find(name) for name in topologies or ["v3-8"]]
  compiler.require_extra(found)
  asked = experiment_lib.Experiment(
    model_fn=model_fn,
    train_input_fn=train_input_fn,
    eval_input_fn=eval_input_fn,
    predict_input_fn=predict_input_fn,
    params=params,
    train_steps=train_steps,
    train_batch_size=train_batch_size,
    eval_batch_size=eval_batch_size,
    predict_batch_size=predict_batch_size,
    train_per_core_batch_size=train_per_core_batch_size,
    eval_per_core_batch_size=eval_per_core_batch_size,
    predict_per_core_batch_size=predict_per_core_batch_size,
  )
  experiment = bindings.of_run(asked, precision)
  checker = check.Check(experiment, timeout_seconds, search, kept=save)
  return [checker.check_step(kind, topology) for topology in found for kind in experiment.kinds()]
