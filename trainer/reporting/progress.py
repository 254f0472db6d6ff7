"""Shows the progress of a training: log lines, and a bar on a terminal or in a notebook.

A line has the step, loss, learning rate, examples/s, ms/step, the share of time spent waiting for
input, and the remaining time.
"""

import datetime
import importlib.util
import time
from collections.abc import Callable, Mapping

from absl import logging
from rich import console as rich_console
from rich import progress as rich_progress

from trainer.cli import formatting
from trainer.reporting import console as console_lib

# Of lines that a person alone reads: a notebook keeps each of them.
_SECONDS_BETWEEN_LINES = 10.0

_LONG = 100 * 365.25 * 24 * 3600  # seconds


def line(step: int, final_step: int | None, report: Mapping[str, float]) -> str:
  """Returns the log line of a report.

  Args:
    step: the global step.
    final_step: the step at which the training ends; None if it is not known.
    report: what `totals.Totals.take` returns.
  """
  rate = report.get("learning_rate")
  parts = [f"step {step}" + (f"/{final_step}" if final_step else ""), f"loss {report['loss']:.5g}"]
  if rate is not None:
    parts.append(f"lr {rate:.4g}")
  parts += [
    f"{report['examples_per_second']:,.0f} examples/s",
    f"{formatting.three_digits(1000 / report['steps_per_second'])} ms/step",
    f"input wait {report['input_wait']:.0%}",
  ]
  if final_step:
    parts.append(f"ETA {_eta((final_step - step) / report['steps_per_second'])}")
  return "  ".join(parts)


def _eta(seconds):
  # A timedelta cannot be longer than 2.7 million years.
  if seconds > _LONG:
    return "over 100 years"
  return str(datetime.timedelta(seconds=round(seconds)))


class Progress:
  """Shows reports: as log lines, and on a terminal or in a notebook as a bar.

  Where the lines are for a person alone (see `console`), the bar shows each report, and a line
  comes every ten seconds where there is no bar, and at the end.

  Args:
    start: the step at which the training starts.
    final_step: the step at which it ends; None if it is not known.
    show: RunConfig.show_progress: False for no bar.
    console: where the bar is drawn; None for the standard error output.
    clock: seconds.
  """

  def __init__(
    self,
    start: int,
    final_step: int | None,
    show: bool | None = None,
    console: rich_console.Console | None = None,
    clock: Callable[[], float] = time.monotonic,
  ) -> None:
    self._final_step = final_step
    self._clock = clock
    self._bar: rich_progress.Progress | None = None
    self._kept = ""  # the line of the newest report, if it was not logged
    self._logged_at = clock()
    console = console or rich_console.Console(stderr=True)
    if show is not False and _can_draw(console):
      self._bar = rich_progress.Progress(
        rich_progress.TextColumn("train"),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TextColumn("step {task.completed}{task.fields[report]}"),
        rich_progress.TimeRemainingColumn(),
        console=console,
        transient=True,
      )
      self._task = self._bar.add_task("train", total=final_step, completed=start, report="")
      self._bar.start()

  def move(self, step: int) -> None:
    """Moves the bar to a step."""
    if self._bar:
      self._bar.update(self._task, completed=step)

  def report(self, step: int, report: Mapping[str, float]) -> None:
    """Shows a report; see `line`."""
    text = line(step, self._final_step, report)
    if self._bar:
      self._bar.update(
        self._task,
        report=f"  loss {report['loss']:.5g}  {report['examples_per_second']:,.0f} examples/s",
      )
    if console_lib.are_lines_shown_here() and (
      self._bar or self._clock() - self._logged_at < _SECONDS_BETWEEN_LINES
    ):
      self._kept = text
      return
    self._log(text)

  def close(self) -> None:
    """Removes the bar, and logs the newest report if that was only in the bar."""
    if self._bar:
      self._bar.stop()
    if self._kept:
      self._log(self._kept)

  def _log(self, text):
    logging.info("%s", text)
    self._kept, self._logged_at = "", self._clock()


def _can_draw(console):
  """Whether there is a terminal, or a notebook with the package that draws rich's bars in it."""
  return console.is_terminal or (
    console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
  )
