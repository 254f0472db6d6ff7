"""What is done at the boundaries of the training loop, and in which order.

Example:
    with Training(estimator, ...) as training:  # begins the hooks; the first checkpoint
      loop.train(..., training.loop_length, training.after_loop)
      training.finish(step)                                   # the last checkpoint; ends the hooks
"""

import dataclasses

from trainer import spec
from trainer.hooks import every
from trainer.loop import non_finite, outer_loop, preemption
from trainer.reporting import metrics_file, progress, summaries, totals


class Training:
  """One call of Estimator.train.

  Args:
    estimator: the Estimator.
    hooks: list of hooks, see `trainer.hooks`.
    saving_listeners: list of objects like tf.compat.v1.train.CheckpointSaverListener.
    start: the global step to start at.
    final_step: the one to end at, or None for the end of the input.
    batch_size: examples in a step.
    preemption_watch: a preemption.Watch.
    is_saved: whether the training goes on from a checkpoint, which need not be written again.
  """

  def __init__(
    self,
    estimator,
    hooks,
    saving_listeners,
    start,
    final_step,
    batch_size,
    preemption_watch,
    is_saved=False,
  ):
    config = estimator.config
    self._estimator = estimator
    self._hooks = hooks
    self._listeners = saving_listeners
    self._start = start
    self._preemption = preemption_watch
    self._checkpoint_due = every.Every(
      steps=config.checkpoint_steps, seconds=config.checkpoint_seconds, start=start
    )
    self._log_due = every.Every(steps=config.log_step_count_steps, start=start)
    self._summary_due = every.Every(steps=config.save_summary_steps, start=start)
    self._log_totals = totals.Totals(batch_size)
    self._summary_totals = totals.Totals(batch_size)
    self._final_step = final_step
    self._saved_at = start if is_saved else None
    self._position_changed = False
    self._step = start
    self._has_stepped = False  # since this training began
    cadences = [config.log_step_count_steps, config.save_summary_steps, config.checkpoint_steps]
    self._length = outer_loop.LoopLength(
      config.tpu_config.iterations_per_loop,
      tuple(cadence for cadence in cadences if cadence),
      tuple(hook.next_step for hook in hooks if hasattr(hook, "next_step")),
    )
    self._writes = estimator.device.is_chief
    self.stopped = False  # whether a hook ended the training before its first step

  def __enter__(self):
    self._writer = summaries.Writer(self._estimator.model_dir)
    self._progress = progress.Progress(self._start, self._final_step)
    for hook in self._hooks:
      if hasattr(hook, "begin"):
        self.stopped = bool(self._call(hook, hook.begin, self._estimator)) or self.stopped
    for listener in self._listeners:
      listener.begin()
    if self._writes:
      metrics_file.begin(self._estimator.model_dir, self._start)
    if self._saved_at is None:
      self.stopped = self._save(self._start) or self.stopped
    return self

  def loop_length(self, step, final_step):
    """How many steps the next loop has, on all workers."""
    self._step = step
    self.leave_if_saved()
    length = self._estimator.workers.broadcast_from_chief(self._length(step, final_step))
    self._preemption.begin_loop(at_stake=self._has_stepped or length > 1)
    return length

  def after_loop(self, result):
    """Takes a loop.LoopResult; returns whether the training shall stop. The order is important."""
    # 0. What all workers have seen together.
    workers = self._estimator.workers
    result = dataclasses.replace(result, loss=workers.mean(result.loss))
    if workers.total(result.non_finite_step >= 0) and result.non_finite_step < 0:
      result = dataclasses.replace(result, non_finite_step=result.step)
    self._length.took(result.steps, result.seconds)
    self._step, self._has_stepped = result.step, True

    # 1. A loss that is no number: before anything is written or anyone is told.
    non_finite.check(result)

    # 2. The report, so that hooks can see what was logged.
    self._progress.move(result.step)
    self._log_totals.add(result)
    self._summary_totals.add(result)
    last = result.step == self._final_step
    self._report(
      result.step,
      self._log_due.due(result.step) or last,
      self._summary_due.due(result.step) or last,
    )

    # 3. The user's hooks.
    metrics = dict(result.scalars, loss=result.loss)
    stop = False
    for hook in self._hooks:
      stop = bool(self._call(hook, hook, result.step, metrics, self._estimator)) or stop

    # 4. The checkpoint, of what the hooks have left.
    if workers.broadcast_from_chief(self._checkpoint_due.due(result.step)):
      stop = self._save(result.step) or stop

    # 5. Whether the training is asked to end: by Ctrl-C, or because the machine is being taken
    #   away.
    if asked := workers.total(self._preemption.request):
      if self._saved_at != result.step:
        self._save(result.step, is_due=False)
      self._leave(asked)
    return bool(workers.total(stop))

  def leave_if_saved(self):
    """Leaves if the training is asked to end and has nothing left to save, as in an evaluation.

    Several workers can do that only together: they leave after their next loop.
    """
    if (
      self._preemption.request
      and self._saved_at == self._step
      and not self._estimator.device.is_multi_worker
    ):
      self._leave(self._preemption.request)

  def _leave(self, asked):
    self._estimator.wait_for_checkpoint()
    preemption.leave(asked, self._estimator.latest_step(), self._estimator.model_dir)

  def _report(self, step, log, summary):
    if log and self._writes and not self._log_totals.is_empty:
      self._progress.report(step, self._log_totals.take())
    if summary and self._writes and not self._summary_totals.is_empty:
      report = self._summary_totals.take()
      self._writer.scalars(step, report)
      metrics_file.append(self._estimator.model_dir, metrics_file.TRAIN, step, report)

  def position_changed(self):
    """Says that the place in the data is not that of the step any more, so that the checkpoint
    of the step has to be written again.
    """
    self._position_changed = True

  def finish(self, step):
    """What was not reported yet, the last checkpoint; ends hooks and listeners."""
    self._report(step, log=True, summary=True)
    if self._saved_at != step:
      self._save(step)
    elif self._position_changed:
      # Of the same step and values: there is nothing that a listener would have to hear of.
      self._estimator.save_checkpoint()
    self._estimator.wait_for_checkpoint()
    for hook in self._hooks:
      if hasattr(hook, "end"):
        self._call(hook, hook.end, step, self._estimator)
    for listener in self._listeners:
      listener.end(None, step)
    if asked := self._estimator.workers.total(self._preemption.request):
      self._leave(asked)

  def _call(self, hook, method, *arguments):
    with self._estimator.watchdog.stage(f"hook {spec.name_of(hook)}"):
      return method(*arguments)

  def _save(self, step, is_due=True):
    """Saves; returns whether a listener wants to stop.

    `is_due`: whether an undisturbed training would save here too; if not, those listeners that have
      `only_if_due` are not told.
    """
    listeners = [
      listener
      for listener in self._listeners
      if is_due or not getattr(listener, "only_if_due", False)
    ]
    for listener in listeners:
      listener.before_save(None, step)
    self._estimator.save_checkpoint()
    if listeners:  # to whom it is a file
      self._estimator.wait_for_checkpoint()
    self._saved_at = step
    self._preemption.mark_saved(step)
    stop = False
    for listener in listeners:  # each of them, whatever the others say
      stop = bool(listener.after_save(None, step)) or stop
    return stop

  def __exit__(self, *exception):
    self._progress.close()
    self._writer.close()
