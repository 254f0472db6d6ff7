"""Runs the evaluations of a model: chooses the values of its variables, and records the results."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging

from trainer import errors, spec
from trainer.checkpoints import leases, model_values
from trainer.cli import formatting
from trainer.devices import workers as workers_lib
from trainer.evaluation import batches, record
from trainer.hooks import estimator_protocol, hook_list, session_run
from trainer.inputs import read_errors
from trainer.loop import preemption
from trainer.loop import watchdog as watchdog_lib
from trainer.programs import loop_input, step_errors
from trainer.programs import step as step_lib
from trainer.reporting import metric_values
from trainer.settings.kinds import Kind


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluator:
  """Evaluates a model.

  Attributes:
    values: the values of the program's variables.
    workers: the Workers; the chief writes.
  """

  model_dir: str
  program: step_lib.Program
  inputs: loop_input.LoopInputs
  values: model_values.ModelValues
  workers: workers_lib.Workers
  watchdog: watchdog_lib.Watchdog

  def evaluate(
    self,
    source: Callable | loop_input.LoopInput,
    estimator: estimator_protocol.Estimator,
    hooks: Sequence[Any] | None,
    *,
    steps: int | None = None,
    checkpoint_path: str | None = None,
    name: str | None = None,
  ) -> tuple[dict[str, Any], hook_list.HookList]:
    """Evaluates a checkpoint, and writes the result.

    Arguments and errors follow Estimator.evaluate.

    Args:
      source: the eval input_fn, or its LoopInput.
      estimator: the argument of the hooks.
      hooks: list of hooks, or None.
      steps: global batches, or None for the whole set.
      checkpoint_path: the checkpoint; None for the newest.
      name: the evaluation's name, or None.

    Returns:
      (values, hooks): the result of Estimator.evaluate; and the hooks, which have begun, for the
      caller to call.
    """
    # Without a checkpoint this raises before anything compiles.
    self.values.source(checkpoint_path)
    eval_input = self.inputs.call_and_trace(Kind.EVAL, source, name or "")
    names = self.program.calls.call_scaffold_fn(Kind.EVAL)
    specification = eval_input.traced.step.specification
    all_hooks = hook_list.HookList(
      session_run.adapt([*(hooks or []), *(specification.evaluation_hooks or [])], "evaluate"),
      estimator,
      self.watchdog.stage,
    )
    with (
      self.watchdog.stage("evaluation"),
      self.values.load_for_inference(checkpoint_path, names) as checkpoint,
    ):
      # After the load: a hook may assign other values, such as moving averages.
      all_hooks.begin()
      with (
        step_errors.of_step(self.program.calls.model_name, Kind.EVAL),
        read_errors.translate(eval_input.input_fn, Kind.EVAL),
      ):
        result = batches.evaluate(eval_input.traced, eval_input.iterator, steps, self._beat)
    if not result.examples:
      raise errors.InputError(
        f"The eval input_fn {spec.name_of(eval_input.input_fn)} gave no example to evaluate."
      )
    values = dict(result.values, global_step=int(self.program.global_step.numpy()))
    shown = ", ".join(
      f"{key} = {formatting.five_digits(value) if isinstance(value, float) else value}"
      for key, value in values.items()
    )
    logging.info(
      "Evaluated %d examples%s: %s", result.examples, f" ({name})" if name else "", shown
    )
    # After the log line: if the files are not writable, the log has the values.
    if self.workers.device.is_chief:
      record.write(
        self.model_dir,
        name or "",
        values["global_step"],
        metric_values.scalars(result.values),
        is_own=self.values.is_own(checkpoint),
      )
    return values, all_hooks

  def _beat(self):
    self.watchdog.beat()
    leases.renew()
    preemption.leave_if_saved()
