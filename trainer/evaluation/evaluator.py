"""One evaluation after another of a model: with which values, and what is written down of it."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging

from trainer import errors, spec
from trainer.checkpoints import leases, model_values
from trainer.devices import workers as workers_lib
from trainer.evaluation import batches, record
from trainer.hooks import hook_list, session_run
from trainer.inputs import read_errors
from trainer.io import files
from trainer.loop import watchdog as watchdog_lib
from trainer.programs import device_loops, loop_input, step_errors
from trainer.programs import step as step_lib
from trainer.reporting import metric_values
from trainer.settings.kinds import Kind


class Evaluator:
  """Evaluates a model.

  Args:
    model_dir: the folder.
    program: the step.Program.
    loops: its DeviceLoops.
    inputs: the LoopInputs.
    values: the ModelValues of its variables.
    workers: the Workers, of which the chief writes.
    watchdog: the Watchdog.
    between_batches: called between the batches; may raise, to leave a training that is asked to
      end.
  """

  def __init__(
    self,
    *,
    model_dir: str,
    program: step_lib.Program,
    loops: device_loops.DeviceLoops,
    inputs: loop_input.LoopInputs,
    values: model_values.ModelValues,
    workers: workers_lib.Workers,
    watchdog: watchdog_lib.Watchdog,
    between_batches: Callable[[], None],
  ) -> None:
    self._model_dir = model_dir
    self._program = program
    self._loops = loops
    self._inputs = inputs
    self._values = values
    self._workers = workers
    self._watchdog = watchdog
    self._between_batches = between_batches

  def evaluate(
    self,
    source: Callable | loop_input.LoopInput,
    estimator: Any,
    hooks: Sequence[Any] | None,
    *,
    steps: int | None = None,
    checkpoint_path: str | None = None,
    name: str | None = None,
  ) -> tuple[dict[str, Any], hook_list.HookList]:
    """Evaluates a checkpoint, and writes the result down.

    Arguments and errors are those of Estimator.evaluate.

    Args:
      source: the eval input_fn, or its LoopInput.
      estimator: what the hooks get.
      hooks: list of hooks, or None.
      steps: global batches, or None for the whole set.
      checkpoint_path: the checkpoint; None for the newest.
      name: of the evaluation, or None.

    Returns:
      (values, hooks): what Estimator.evaluate returns, and the hooks, which have begun and are to
      be called.
    """
    self._values.source(checkpoint_path)  # an error, before anything is compiled, if there is none
    eval_input = self._inputs.call_and_trace(Kind.EVAL, source, name or "")
    names = self._program.calls.call_scaffold_fn(Kind.EVAL)
    specification = eval_input.traced.step.specification
    all_hooks = hook_list.HookList(
      session_run.adapt([*(hooks or []), *(specification.evaluation_hooks or [])], "evaluate"),
      estimator,
      self._watchdog.stage,
    )
    all_hooks.begin()
    with (
      self._watchdog.stage("evaluation"),
      step_errors.of_step(self._program.calls.model_name, Kind.EVAL),
      read_errors.translate(eval_input.input_fn, Kind.EVAL),
      self._values.load_for_inference(checkpoint_path, names) as checkpoint,
    ):
      result = batches.run(
        self._loops, eval_input.traced, eval_input.iterator, name or "", steps, self._beat
      )
    if not result.examples:
      raise errors.InputError(
        f"The eval input_fn {spec.name_of(eval_input.input_fn)} gave no example: there is nothing "
        "to evaluate."
      )
    values = dict(result.values, global_step=int(self._program.global_step.numpy()))
    shown = ", ".join(
      f"{key} = {value:.5g}" if isinstance(value, float) else f"{key} = {value}"
      for key, value in values.items()
    )
    logging.info(
      "Evaluated %d examples%s: %s", result.examples, f" ({name})" if name else "", shown
    )
    # After the log line: the values are not lost where they cannot be written.
    if self._workers.device.is_chief:
      is_own = self._values.is_own(checkpoint)
      self._record(name, values["global_step"], metric_values.scalars(result.values), is_own)
    return values, all_hooks

  def directory(self, name: str | None = None) -> str:
    """Where the summaries of the evaluations of this name go."""
    return os.path.join(self._model_dir, f"eval_{name}" if name else "eval")

  def _beat(self):
    self._watchdog.beat()
    leases.renew()
    self._between_batches()

  def _record(self, name, step, scalars, is_own):
    """Writes the result down in summaries.

    The result of one of the run's own checkpoints is also for retention, exporters and plots. In a
    folder that may only be read, nothing is written.
    """
    try:
      if is_own:
        record.write(self._model_dir, name or "", step, scalars, self.directory(name))
      else:
        record.write_summaries(self.directory(name), step, scalars)
    except errors.OutputError as error:
      if not files.is_forbidden(error.__cause__):
        raise
      logging.warning("%s The evaluation is not written down.", error)
