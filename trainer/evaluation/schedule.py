"""The evaluations of a run by its EvalSpecs: due ones, pending ones, and their exports.

Example:
    evaluations = ScheduledEvaluations(estimator, [EvalSpec(eval_input_fn)], hooks)
    evaluations.evaluate_pending()  # those that an earlier process left pending
    estimator.train(train_input_fn, hooks, evaluations=evaluations)
    evaluations.finish()            # the last checkpoint
"""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging

from trainer import errors
from trainer.checkpoints import directory, leases
from trainer.evaluation import eval_spec, pending
from trainer.hooks.estimator_protocol import Estimator
from trainer.reporting import evaluations_file, metrics_file


class ScheduledEvaluations:
  """The evaluations of a run by its EvalSpecs, with their reports and exporters.

  An evaluation is pending from before it begins until its result is on disk, its exports are
  complete, and the hooks know it. If a hook stops the training, or does not know the evaluation
  yet, the evaluation stays pending until the run has ended: the next process must stop there too.

  A training calls `report_pending`, `add_pending` and `evaluate_saved`, see boundaries.Evaluations.

  Args:
    estimator: the Estimator.
    specs: the EvalSpecs.
    hooks: each hook with `evaluated` receives every evaluation, and may stop the training.
    clock: seconds.

  Attributes:
    results: name of an EvalSpec → metrics of its newest evaluation.
  """

  def __init__(
    self,
    estimator: Estimator,
    specs: Sequence[eval_spec.EvalSpec],
    hooks: Sequence[Any] = (),
    clock: Callable[[], float] = time.monotonic,
  ) -> None:
    eval_spec.check(specs)
    self.results: dict[str | None, dict[str, Any]] = {}
    self._estimator = estimator
    self._specs = {spec.name or "": spec for spec in specs}
    self._hooks = hooks
    self._clock = clock
    self._pending = pending.PendingEvaluations(estimator.model_dir, estimator.device.is_chief)
    self._last_times: dict[str, float] = {}  # By name, if known.
    self._reported: dict[str, int] = {}  # Name → the step of this process's newest report.
    self._due: list[str] = []  # The names, for the checkpoint that the training is writing.
    # (step, name, result) of evaluations that no hook has heard of.
    self._unreported: list[tuple[int, str, dict[str, Any]]] = []
    self._kept: list[tuple[int, str]] = []  # Evaluations that stay pending until the run has ended.

  def evaluate_pending(self) -> None:
    """Does the evaluations that an earlier process left pending, with their own checkpoints.

    Raises:
      FileDamagedError: evaluations.json is damaged. Reading it here raises before the training, not
        at its first evaluation.
    """
    evaluations_file.read(self._estimator.model_dir, "")
    found = self._find_pending()
    if found:  # Exporters compare with their records, and these may be of later steps.
      self._estimator.go_back()
    for step, name in found:
      if result := self._evaluate_if_there(step, name):
        self._unreported.append((step, name, result))
      else:
        self._pending.remove(step, name)

  def report_pending(self) -> bool:
    """Tells the hooks of the evaluations that `evaluate_pending` did.

    Returns whether a hook stops the training.
    """
    unreported, self._unreported = self._unreported, []
    # Ask each hook, whatever the others answer.
    stops = [self._report(*each) for each in unreported]
    return any(stops)

  def add_pending(self, step: int) -> None:
    """Marks the due evaluations of a step as pending, before the write of its checkpoint.

    If the process died in between, a mark after the write would be lost.
    """
    # All workers must evaluate together, whatever their clocks say.
    all_say = self._estimator.workers.broadcast_from_chief
    self._due = [name for name in self._specs if all_say(self._is_due(name))]
    for name in self._due:
      self._pending.add(step, name)

  def evaluate_saved(self, step: int) -> bool:
    """Does the due evaluations; returns whether a hook stops the training."""
    due, self._due = self._due, []
    if step not in self._estimator.checkpoint_steps():
      # The write failed, and the training continues without: there is no checkpoint to read.
      for name in due:
        self._pending.remove(step, name)
      return False
    stops = [self._report(step, name, self._evaluate(name)) for name in due]
    return any(stops)

  def evaluate_new(self, step: int) -> None:
    """Evaluates a checkpoint with each EvalSpec that has not evaluated it yet.

    The method skips a missing or damaged checkpoint.
    """
    known = self._pending.read()
    with leases.hold(self._estimator.checkpoint_path(step)):  # Also for the exports.
      for name in self._specs:
        done = evaluations_file.read(self._estimator.model_dir, name)
        if step not in done or (step, name) in known:
          self._pending.add(step, name)
          self._evaluate_if_there(step, name)
          self._pending.remove(step, name)

  def finish(self) -> None:
    """Evaluates the last checkpoint with each EvalSpec that has not evaluated it yet.

    The exporters hear that it is the last one.
    """
    last = self._estimator.latest_step()
    for name, spec in self._specs.items():
      if spec.name in self.results and self.results[spec.name]["global_step"] == last:
        self._report_and_export(name, is_final=True)
      else:
        self._evaluate(name, is_final=True)
    unreported = [(step, name) for step, name, _ in self._unreported]
    for step, name in [*self._kept, *unreported]:
      self._pending.remove(step, name)

  def export_final(self) -> None:
    """Tells the reports and exporters that no evaluation follows the newest ones."""
    for name, spec in self._specs.items():
      if spec.name in self.results:
        self._report_and_export(name, is_final=True)

  def _find_pending(self):
    """Returns (step, name) of the possible pending evaluations, the same on all workers."""
    names, all_get = list(self._specs), self._estimator.workers.broadcast_from_chief
    found = self._sort_pending() if self._estimator.device.is_chief else []
    count = all_get(len(found))
    pairs = [(step, names.index(name)) for step, name in found] or [(0, 0)] * count
    return [(all_get(step), names[all_get(index)]) for step, index in pairs]

  def _sort_pending(self):
    """Returns the possible pending evaluations.

    Removes marks of a checkpoint that no process wrote in the end, or of a missing EvalSpec.
    """
    # A process may have written the checkpoint without committing it.
    checkpoints = directory.CheckpointDirectory(self._estimator.model_dir)
    checkpoints.recover()
    steps = self._estimator.checkpoint_steps()
    passed_over = checkpoints.passed_over()
    found = []
    for step, name in self._pending.read():
      if step in passed_over:
        continue  # The mark moves aside with its checkpoint.
      if step in steps and name in self._specs:
        found.append((step, name))
        continue
      if step in steps:
        logging.warning(
          "The pending evaluation %r of step %d has no EvalSpec of its name: Octet leaves it out.",
          name,
          step,
        )
      self._pending.remove(step, name)
    return found

  def _is_due(self, name):
    """Whether an EvalSpec's last evaluation, maybe an earlier process's, is long ago."""
    now, model_dir = self._clock(), self._estimator.model_dir
    if name not in self._last_times:
      seconds = metrics_file.seconds_since(model_dir, metrics_file.eval_kind(name))
      self._last_times[name] = float("-inf") if seconds is None else now - seconds
    return now - self._last_times[name] >= self._specs[name].throttle_secs

  def _report(self, step, name, result):
    """Tells each hook of an evaluation; returns whether any hook stops the training."""
    stop = False
    for hook in self._hooks:
      if hasattr(hook, "evaluated"):
        stop = bool(hook.evaluated(step, name, result, self._estimator)) or stop
    if stop:
      self._kept.append((step, name))
    else:
      self._pending.remove(step, name)
    return stop

  def _evaluate_if_there(self, step, name):
    """Evaluates the checkpoint of a step; returns None if it is gone or damaged."""
    try:
      return self._evaluate(name, self._estimator.checkpoint_path(step))
    except (errors.CheckpointNotFoundError, errors.CheckpointDamagedError) as error:
      logging.warning("Not evaluated: %s", error)
      return None

  def _evaluate(self, name, path=None, is_final=False):
    """Evaluates a checkpoint, the newest by default, and exports."""
    spec = self._specs[name]
    result = self._estimator.evaluate(
      spec.input_fn, steps=spec.steps, hooks=list(spec.hooks), name=spec.name, checkpoint_path=path
    )
    self.results[spec.name] = result
    self._last_times[name] = self._clock()
    self._report_and_export(name, is_final)
    return result

  def _report_and_export(self, name, is_final):
    spec = self._specs[name]
    result = self.results[spec.name]
    step = result["global_step"]
    path = self._estimator.checkpoint_path(step)
    # Before the exports: their model cards show the report.
    if spec.report and (is_final or spec.report.every_evaluation):
      if self._reported.get(name) != step:
        spec.report.write(
          self._estimator,
          spec.input_fn,
          step=step,
          checkpoint_path=path,
          name=spec.name,
          steps=spec.steps,
        )
      self._reported[name] = step
    for exporter in spec.exporters if self._estimator.device.is_chief else ():
      exporter.export(
        self._estimator,
        os.path.join(self._estimator.model_dir, "export", exporter.name).rstrip("/"),
        path,
        result,
        is_final,
      )
