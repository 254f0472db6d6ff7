"""What a training tells of itself between two device loops: a bar, a line, summaries, metrics."""

import dataclasses

from trainer import run_config
from trainer.hooks import every
from trainer.loop import outer_loop
from trainer.reporting import metrics_file, progress, summaries, totals

# The loss falls fastest at the beginning, and a short training needs points for a curve.
_FIRST_REPORTS = 10, 20, 50
_RARE = 100  # from this cadence on, there are first reports


@dataclasses.dataclass
class TrainingReport:
  """The reports of one training.

  Attributes:
    model_dir: the folder for summaries and metrics.jsonl.
    config: the RunConfig, with the cadences.
    start: the first global step of the training.
    final_step: the last global step, or None for the end of the input.
    batch_size: examples in a step.
    writes: whether this process writes: one of several workers does.
  """

  model_dir: str
  config: run_config.RunConfig
  start: int
  final_step: int | None
  batch_size: int
  writes: bool

  def __post_init__(self) -> None:
    config = self.config
    self._log_due = every.Every(steps=config.log_step_count_steps, start=self.start)
    cadence = config.save_summary_steps
    first = _FIRST_REPORTS if cadence >= _RARE else ()
    self._summary_due = every.Every(steps=cadence, at=first, start=self.start)
    self._clear_totals()
    self._writer = summaries.Writer(self.model_dir)
    self._progress = progress.Progress(self.start, self.final_step, config.show_progress)
    if self.writes:
      self._begin(self.start)

  def went_back_to(self, step: int) -> None:
    """Records a return to an earlier step, which makes later reports invalid."""
    # The unreported loops ended in the fault, and the next reports are of the repeated steps.
    self._clear_totals()
    for timer in (self._log_due, self._summary_due):
      timer.restart(step)
    if self.writes:
      self._begin(step)

  def _clear_totals(self):
    self._log_totals = totals.Totals(self.batch_size)
    self._summary_totals = totals.Totals(self.batch_size)

  def _begin(self, step):
    metrics_file.begin(self.model_dir, step)
    summaries.begin(self.model_dir, step)

  def next_step(self, step: int) -> int | None:
    """Returns the next step to report, at which a device loop should end."""
    return self._summary_due.next_step(step)

  def add(self, result: outer_loop.LoopResult) -> None:
    """Adds the result of a device loop, and writes the scheduled reports."""
    self._log_totals.add(result)
    self._progress.move(result.step, self._log_totals.steps_per_second)
    self._summary_totals.add(result)
    is_last = result.step == self.final_step
    # Ask both every time: each counts from the last question.
    log, summary = self._log_due.due(result.step), self._summary_due.due(result.step)
    self._report(result.step, log or is_last, summary or is_last)

  def flush(self, step: int) -> None:
    """Reports the steps since the last report."""
    self._report(step, log=True, summary=True)

  def pause(self) -> None:
    """Takes the bar away until the next device loop has ended."""
    self._progress.pause()

  def close(self) -> None:
    """Takes the bar away."""
    self._progress.close()

  def _report(self, step, log, summary):
    if log and self.writes and not self._log_totals.is_empty:
      self._progress.report(step, self._log_totals.take())
    if summary and self.writes and not self._summary_totals.is_empty:
      report = self._summary_totals.take()
      self._writer.scalars(step, report)
      metrics_file.append(self.model_dir, metrics_file.TRAIN, step, report)
