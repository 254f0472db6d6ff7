"""What is done at the boundaries of the training loop, and in which order.

Example:
    boundaries = Boundaries(...)
    boundaries.begin()                    # begins the hooks; the first checkpoint
    step, data_ended = outer_loop.train(..., boundaries.loop_length, boundaries.after_loop)
    boundaries.finish(step, data_ended)   # the last checkpoint; ends the hooks
"""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trainer import run_config
from trainer.checkpoints import saver as saver_lib
from trainer.devices import workers as workers_lib
from trainer.hooks import every, hook_list
from trainer.loop import outer_loop, preemption, training_report, variable_check


class Boundaries:
  """The boundaries of one training.

  Args:
    config: the RunConfig.
    model_dir: the folder, for messages.
    hooks: the HookList.
    listeners: list of objects like tf.compat.v1.train.CheckpointSaverListener.
    before_checkpoint: function of the global step, called before a checkpoint that is due is
      written, but that of step 0. None for nothing.
    after_checkpoint: function of the global step, called when a checkpoint that was due has been
      written, but that of step 0; returns whether to stop. None for nothing.
    saver: the Saver.
    report: the TrainingReport.
    workers: the Workers.
    preemption_watch: the preemption.Watch.
    variables: the VariableCheck.
    start: the global step to start at.
    final_step: the one to end at, or None for the end of the input.
    checkpoint: path of the checkpoint that the training goes on from, which need not be written
      again, or None.

  Attributes:
    stopped: whether a hook ended the training before its first step.
    has_stepped: whether this training has done a step.
  """

  def __init__(
    self,
    *,
    config: run_config.RunConfig,
    model_dir: str,
    hooks: hook_list.HookList,
    listeners: Sequence[Any],
    before_checkpoint: Callable[[int], None] | None = None,
    after_checkpoint: Callable[[int], bool] | None,
    saver: saver_lib.Saver,
    report: training_report.TrainingReport,
    workers: workers_lib.Workers,
    preemption_watch: preemption.Watch,
    variables: variable_check.VariableCheck,
    start: int,
    final_step: int | None,
    checkpoint: str | None,
  ) -> None:
    self._model_dir = model_dir
    self._hooks = hooks
    self._listeners = listeners
    self._before_checkpoint = before_checkpoint
    self._after_checkpoint = after_checkpoint
    self._saver = saver
    self._report = report
    self._workers = workers
    self._preemption = preemption_watch
    self._variables = variables
    self._start = start
    self._checkpoint_due = every.Every(
      steps=config.checkpoint_steps, seconds=config.checkpoint_seconds, start=start
    )
    self._checkpoint = checkpoint
    self._saved_at = start if checkpoint else None
    self._step = start
    self.has_stepped = False
    cadences = [config.log_step_count_steps, config.checkpoint_steps]
    self._length = outer_loop.LoopLength(
      config.tpu_config.iterations_per_loop,
      tuple(cadence for cadence in cadences if cadence),
      (*hooks.next_steps, report.next_step),
    )
    self.stopped = False

  def begin(self) -> None:
    """Begins hooks and listeners, and saves where the training does not go on from a checkpoint.

    Raises:
      NonFiniteError: a variable is NaN already.
    """
    self.stopped = self._hooks.begin()
    self._variables.begin(self._start, self._checkpoint)
    for listener in self._listeners:
      listener.begin()
    if self._saved_at is None:
      self.stopped = self._save(self._start) or self.stopped

  def loop_length(self, step: int, final_step: int) -> int:
    """How many steps the next loop has, on all workers."""
    self._step = step
    self.leave_if_saved()
    length = self._workers.broadcast_from_chief(self._length(step, final_step))
    self._hooks.before_loop()
    self._preemption.begin_loop(at_stake=self.has_stepped or length > 1)
    return length

  def after_loop(self, result: outer_loop.LoopResult) -> bool:
    """Does what is due after a loop; returns whether the training shall stop.

    The order is important.

    Raises:
      NonFinite: a step's loss, or a variable, is NaN or infinite.
      Preempted, Interrupted: the training was asked to end, and has saved.
    """
    # 0. What all workers have seen together.
    workers = self._workers
    result = dataclasses.replace(result, loss=workers.mean(result.loss))
    if workers.total(result.non_finite_step >= 0) and result.non_finite_step < 0:
      result = dataclasses.replace(result, non_finite_step=result.step)
    self._length.took(result.steps, result.seconds)
    self._step, self.has_stepped = result.step, True

    # 1. What is no number: before anything is written or anyone is told.
    saves = bool(workers.broadcast_from_chief(self._checkpoint_due.is_due(result.step)))
    self._variables.after_loop(result, saves)

    # 2. The report, so that hooks can see what was logged.
    self._report.add(result)

    # 3. The user's hooks.
    stop = self._hooks.call(result.step, dict(result.scalars, loss=result.loss))

    # 4. The checkpoint, of what the hooks have left, and its evaluation.
    if saves:
      self._checkpoint_due.restart(result.step)
      stop = self._save(result.step) or stop

    # 5. Whether the training is asked to end: by Ctrl-C, or because the machine is being taken
    #    away. What is saved for that only is not evaluated: the training is in a hurry, and an
    #    undisturbed one would have no such checkpoint.
    if asked := workers.total(self._preemption.request):
      if self._saved_at != result.step:
        self._save(result.step, is_due=False)
      self._leave(asked)
    return bool(workers.total(stop))

  def leave_if_saved(self) -> None:
    """Leaves if the training is asked to end and has nothing left to save, as in an evaluation.

    Several workers can do that only together: they leave after their next loop.
    """
    if (
      self._preemption.request
      and self._saved_at == self._step
      and not self._workers.device.is_multi_worker
    ):
      self._leave(self._preemption.request)

  @contextlib.contextmanager
  def leave_at_once(self) -> Iterator[None]:
    """Has a signal interrupt the context, such as an export, and leaves the training then.

    A training that has something left to save, or goes on on several workers, is not interrupted;
    nor is a context that another thread than the training's opens.
    """
    if (
      self._saved_at != self._step
      or self._workers.device.is_multi_worker
      or threading.current_thread() is not threading.main_thread()
    ):
      yield
      return
    self.leave_if_saved()
    try:
      with self._preemption.interruptible():
        yield
    except KeyboardInterrupt:
      self.leave_if_saved()
      raise

  def finish(self, step: int, data_ended: bool) -> None:
    """What was not reported yet, the last checkpoint; ends hooks and listeners.

    Args:
      step: the global step that was reached.
      data_ended: whether the place in the data is its beginning again, so that the checkpoint of
        the step has to be written again.

    Raises:
      NonFinite: a variable is NaN or infinite.
    """
    if self._saved_at != step:
      self._variables.require(step)  # before anyone is told
    self._report.flush(step)
    if self._saved_at != step:
      self._save(step)
    elif data_ended:
      # Of the same step and values: there is nothing that a listener would have to hear of.
      self._saver.save()
    self._saver.wait()
    # No later checkpoint makes up for this one: it is tried again.
    if self._saver.has_failed:
      self._save(step, is_last=True)
    self._hooks.end(step)
    for listener in self._listeners:
      listener.end(None, step)
    if asked := self._workers.total(self._preemption.request):
      self._leave(asked)

  def _save(self, step, is_due=True, is_last=False):
    """Saves; returns whether to stop.

    Args:
      step: the global step.
      is_due: whether an undisturbed training would save here too. Then the checkpoint is evaluated.
      is_last: whether no save follows. Then one that fails is an error.

    Raises:
      NonFinite: a variable is NaN or infinite; nothing is written.
    """
    # Here too: the look after the loop may have been left out, and hooks may change variables.
    self._variables.require(step)
    for listener in self._listeners:
      listener.before_save(None, step)
    if self._before_checkpoint is not None and is_due and step:
      self._before_checkpoint(step)
    self._saver.save()
    if self._listeners or is_last:  # to listeners it is a file
      self._saver.wait(is_last)
    self._saved_at = step
    self._preemption.mark_saved(step)
    stop = False
    for listener in self._listeners:  # each of them, whatever the others say
      stop = bool(listener.after_save(None, step)) or stop
    if self._after_checkpoint is not None and is_due and step:
      self._saver.wait()
      stop = bool(self._after_checkpoint(step)) or stop
    return stop

  def _leave(self, asked):
    self._saver.wait()
    preemption.leave(asked, self._saver.latest_step(), self._model_dir)
