"""TrainSpec, EvalSpec and train_and_evaluate, as in 2.15."""

import dataclasses
from collections.abc import Callable
from typing import Any

import trainer
from trainer.compat.estimator import program_errors, reading


@dataclasses.dataclass(frozen=True)
class TrainSpec:
  """The training part of train_and_evaluate; see Estimator.train."""

  input_fn: Callable
  max_steps: int | None = None
  hooks: Any = ()
  saving_listeners: Any = ()


@dataclasses.dataclass(frozen=True)
class EvalSpec:
  """The evaluation part of train_and_evaluate; see Estimator.evaluate."""

  input_fn: Callable
  steps: int | None = 100
  name: str | None = None
  hooks: Any = ()
  exporters: Any = ()
  start_delay_secs: float = 120
  throttle_secs: float = 600


def train_and_evaluate(estimator: Any, train_spec: TrainSpec, eval_spec: EvalSpec) -> Any:
  """Trains to max_steps, and evaluates on the way and at the end.

  Args:
    estimator: an Estimator.
    train_spec: a TrainSpec.
    eval_spec: an EvalSpec; start_delay_secs has no effect in one process.

  Returns:
    (the last evaluation's result, the list of exports by its exporters).
  """
  exporters = eval_spec.exporters or ()
  if not isinstance(exporters, list | tuple):
    exporters = (exporters,)
  max_steps = reading.whole_steps(train_spec.max_steps)
  noting = [_Noting(exporter, max_steps) for exporter in exporters]
  training = trainer.TrainSpec(
    train_spec.input_fn,
    max_steps=max_steps,
    hooks=tuple(train_spec.hooks or ()),
    saving_listeners=tuple(train_spec.saving_listeners or ()),
  )
  evaluation = trainer.EvalSpec(
    eval_spec.input_fn,
    steps=reading.whole_steps(eval_spec.steps),
    name=eval_spec.name,
    hooks=tuple(eval_spec.hooks or ()),
    throttle_secs=eval_spec.throttle_secs,
    exporters=tuple(noting),
  )
  with program_errors.of_program():
    results = trainer.train_and_evaluate(estimator, training, evaluation)
  return results.get(eval_spec.name), [exporter.exported for exporter in noting]


class _Noting:
  """An exporter that remembers its last export.

  Octet calls an exporter for the last checkpoint, and once more at the end with
  is_the_final_export. TensorFlow calls it once: a checkpoint of max_steps is the final one.
  """

  def __init__(self, exporter: Any, max_steps: int | None):
    self._exporter = exporter
    self._max_steps = max_steps
    self._final: str | None = None  # the checkpoint of the final export
    self.name = exporter.name
    self.exported: Any = None

  def export(
    self,
    estimator: Any,
    export_path: str,
    checkpoint_path: str,
    eval_result: dict[str, Any],
    is_the_final_export: bool,
  ) -> Any:
    if self._final == checkpoint_path:
      return None
    if self._max_steps is not None and eval_result["global_step"] >= self._max_steps:
      is_the_final_export = True
    exported = self._exporter.export(
      estimator, export_path, checkpoint_path, eval_result, is_the_final_export
    )
    self._final = checkpoint_path if is_the_final_export else None
    self.exported = exported or self.exported
    return exported
