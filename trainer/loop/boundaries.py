"""The work at the boundaries of the training loop, and its order.

Example:
    boundaries = Boundaries(...)
    boundaries.begin()                    # begins the hooks; the first checkpoint
    step, data_ended = outer_loop.train(..., boundaries.loop_length, boundaries.after_loop)
    boundaries.finish(step, data_ended)   # the last checkpoint; ends the hooks
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from trainer import run_config
from trainer.checkpoints import saver as saver_lib
from trainer.devices import workers as workers_lib
from trainer.hooks import every, hook_list
from trainer.loop import outer_loop, preemption, training_report, variable_check


class Evaluations(Protocol):
  """Calls around a training's scheduled checkpoints, except the checkpoint of step 0."""

  def report_pending(self) -> bool:
    """Tells the hooks, after their begin, the evaluations from before the training.

    Returns whether a hook stops the training.
    """

  def add_pending(self, step: int) -> None:
    """Records, before the write of a step's checkpoint, the evaluations that it needs."""

  def evaluate_saved(self, step: int) -> bool:
    """Evaluates the newly written checkpoint; returns whether to stop the training."""


@dataclasses.dataclass(kw_only=True)
class Boundaries:
  """The boundaries of one training.

  Attributes:
    listeners: list of objects like tf.compat.v1.train.CheckpointSaverListener.
    leave: leaves the training, see preemption.Watch.
    start: the global step to start at.
    checkpoint: path of the checkpoint that the training resumes from (it needs no save), or None.
    has_stepped: whether this training has run a step.
  """

  config: run_config.RunConfig
  hooks: hook_list.HookList
  listeners: Sequence[Any]
  evaluations: Evaluations | None
  saver: saver_lib.Saver
  report: training_report.TrainingReport
  workers: workers_lib.Workers
  watch: preemption.Watch
  leave: Callable[[int], NoReturn]
  variables: variable_check.VariableCheck
  start: int
  checkpoint: str | None
  has_stepped: bool = False

  def __post_init__(self) -> None:
    config = self.config
    self._saved_at = self.start if self.checkpoint else None
    self._checkpoint_due = every.Every(
      steps=config.checkpoint_steps, seconds=config.checkpoint_seconds, start=self.start
    )
    cadences = [config.log_step_count_steps, config.checkpoint_steps]
    self._length = outer_loop.LoopLength(
      config.tpu_config.iterations_per_loop,
      tuple(cadence for cadence in cadences if cadence),
      (*self.hooks.next_steps, self.report.next_step),
    )

  def begin(self) -> bool:
    """Begins hooks and listeners, and saves where the training does not go on from a checkpoint.

    Returns whether a hook ends the training before its first step.

    Raises:
      NonFiniteError: a variable is NaN already.
    """
    stop = self.hooks.begin()
    if self.evaluations is not None:
      stop = self.evaluations.report_pending() or stop
    self.variables.begin(self.start, self.checkpoint)
    for listener in self.listeners:
      listener.begin()
    if self._saved_at is None:
      stop = self._save(self.start) or stop
    return stop

  def loop_length(self, step: int, final_step: int) -> int:
    """How many steps the next loop has, on all workers."""
    if self._saved_at == step:
      self.watch.mark_saved(step)
    self.watch.leave_if_saved()
    length = self.workers.broadcast_from_chief(self._length(step, final_step))
    self.hooks.before_loop()
    self.watch.begin_loop(at_stake=self.has_stepped or length > 1)
    return length

  def after_loop(self, result: outer_loop.LoopResult) -> bool:
    """Does the scheduled work after a loop; returns whether the training must stop.

    The order matters.

    Raises:
      NonFinite: a step's loss, or a variable, is NaN or infinite.
      Preempted, Interrupted: a signal asked the training to end, and it has saved.
    """
    self._length.took(result.steps, result.seconds)
    self.has_stepped = True
    workers = self.workers

    # 1. NaN and infinity: before any write or report.
    saves = bool(workers.broadcast_from_chief(self._checkpoint_due.is_due(result.step)))
    self.variables.after_loop(result, saves)

    # 2. The report, so that hooks see the logged values.
    self.report.add(result)

    # 3. The user's hooks.
    stop = self.hooks.call(result.step, dict(result.scalars, loss=result.loss))

    # 4. The checkpoint, with the hooks' changes, and its evaluation.
    if saves:
      self._checkpoint_due.restart(result.step)
      stop = self._save(result.step) or stop

    # 5. Signals: Ctrl-C, or SIGTERM before the machine goes away. No evaluation of a checkpoint for
    # a signal alone: time is short, and an undisturbed training would not have this checkpoint.
    if asked := workers.total(self.watch.request):
      if self._saved_at != result.step:
        self._save(result.step, is_due=False)
      self.leave(asked)
    return bool(workers.total(stop))

  def finish(self, step: int, data_ended: bool) -> None:
    """Writes the last report and the last checkpoint; ends hooks and listeners.

    Args:
      step: the last global step.
      data_ended: whether the position in the data is the beginning again, so that the checkpoint of
        the step needs a new write.

    Raises:
      NonFinite: a variable is NaN or infinite.
    """
    if self._saved_at != step:
      self.variables.require(step)  # Before anyone hears of it.
    self.report.flush(step)
    if self._saved_at != step:
      self._save(step)
    elif data_ended:
      # Of the same step and values: there is nothing that a listener would have to hear of.
      self.saver.save()
    self.saver.wait()
    # No later checkpoint replaces this one, so try again.
    if self.saver.has_failed:
      self._save(step, is_last=True)
    # A loop that finds no data does no step, but begin_loop has taken the mark away. With the mark,
    # a signal interrupts a hook that evaluates or exports at the end.
    self.watch.mark_saved(step)
    self.hooks.end(step)
    for listener in self.listeners:
      listener.end(None, step)
    if asked := self.workers.total(self.watch.request):
      self.leave(asked)

  def _save(self, step, is_due=True, is_last=False):
    """Saves; returns whether to stop.

    Args:
      step: the global step.
      is_due: whether an undisturbed training would save here too. If so, evaluate the checkpoint.
      is_last: whether no save follows. If so, a failure is an error.

    Raises:
      NonFinite: a variable is NaN or infinite; the training writes nothing.
    """
    # Again: the training may have skipped the check after the loop, and hooks may change variables.
    self.variables.require(step)
    for listener in self.listeners:
      listener.before_save(None, step)
    evaluations = self.evaluations if is_due and step else None
    if evaluations is not None:
      evaluations.add_pending(step)
    self.saver.save()
    if self.listeners or is_last:  # to listeners it is a file
      self.saver.wait(is_last)
    self._saved_at = step
    self.watch.mark_saved(step)
    stop = False
    for listener in self.listeners:  # Ask each of them, whatever the others say.
      stop = bool(listener.after_save(None, step)) or stop
    if evaluations is not None:
      self.saver.wait()
      self.report.pause()  # No step runs during the evaluation and the export of a checkpoint.
      stop = evaluations.evaluate_saved(step) or stop
    return stop
