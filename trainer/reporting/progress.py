"""Shows the progress of a training: log lines, and a bar on a terminal or in a notebook.

A line has the step, loss, learning rate, examples/s, ms/step, the share of time spent waiting for
input, and the remaining time.
"""

import datetime
import time
from collections.abc import Callable, Mapping

from absl import logging
from rich import console as rich_console
from rich import progress_bar, segment

from trainer.cli import formatting
from trainer.reporting import console as console_lib

# The fewest seconds between two lines that only a person reads: a notebook keeps each line.
_SECONDS_BETWEEN_LINES = 10.0

_LONG = 100 * 365.25 * 24 * 3600  # seconds

_BAR_WIDTH = 40
_LEAST_BAR_WIDTH = 10  # Leave out a narrower bar.


def line(step: int, final_step: int | None, report: Mapping[str, float]) -> formatting.Fields:
  """Returns the log line of a report.

  Args:
    step: the global step.
    final_step: the last step of the training; None if unknown.
    report: from `totals.Totals.take`.
  """
  rate = report.get("learning_rate")
  fields = [(0, _step(step, final_step)), (1, f"loss {report['loss']:.5g}")]
  if rate is not None:
    fields.append((5, f"lr {rate:.4g}"))
  fields += [
    (2, f"{report['examples_per_second']:,.0f} examples/s"),
    (4, f"{formatting.three_digits(1000 / report['steps_per_second'])} ms/step"),
    (3, f"input wait {report['input_wait']:.0%}"),
  ]
  if final_step:
    fields.append((0, _eta(step, final_step, report["steps_per_second"])))
  return formatting.Fields(fields)


def _step(step, final_step):
  return f"step {step}" + (f"/{final_step}" if final_step else "")


def _eta(step, final_step, steps_per_second):
  seconds = (final_step - step) / steps_per_second
  # A timedelta cannot be longer than 2.7 million years.
  return "ETA " + (
    "over 100 years" if seconds > _LONG else str(datetime.timedelta(seconds=round(seconds)))
  )


class _Bar:
  """The bar of a training for rich, always in one line.

  Attributes:
    step: the newest global step.
    steps_per_second: the speed, for the remaining time; None before the first loop.
    report: the newest report, or None.
  """

  def __init__(self, start: int, final_step: int | None) -> None:
    self.step = start
    self.steps_per_second: float | None = None
    self.report: Mapping[str, float] | None = None
    self._final_step = final_step

  def __rich_console__(
    self, console: rich_console.Console, options: rich_console.ConsoleOptions
  ) -> rich_console.RenderResult:
    # Ask at each refresh, since a window changes its size. rich's console prefers the variable
    # COLUMNS, and that may be another window's.
    columns = min(console.width, formatting.terminal_columns(console.file) or console.width)
    width = columns - formatting.ROOM
    final_step = self._final_step
    fields = [(0, _step(self.step, final_step))]
    if self.report is not None:
      fields += [
        (2, f"loss {self.report['loss']:.5g}"),
        (3, f"{self.report['examples_per_second']:,.0f} examples/s"),
      ]
    if final_step:
      fields.insert(0, (1, f"{self.step / final_step:4.0%}"))
      if self.steps_per_second is not None:
        fields.append((0, _eta(self.step, final_step, self.steps_per_second)))
    text = formatting.Fields(fields).fit(width - len("train  ") - _LEAST_BAR_WIDTH - 2)
    bar_width = min(_BAR_WIDTH, width - len("train  ") - len(text) - 2)
    if bar_width < _LEAST_BAR_WIDTH:
      yield segment.Segment(text[:width])
      return
    yield segment.Segment("train  ")
    bar = progress_bar.ProgressBar(final_step, self.step, width=bar_width)
    # Without colors rich leaves out the rest of the bar, so pad it.
    yield from segment.Segment.adjust_line_length(list(console.render(bar, options)), bar_width)
    yield segment.Segment(f"  {text}")


class Progress:
  """Shows reports: as log lines, and on a terminal or in a notebook as a bar.

  If only a person reads the lines (see `console`), the bar shows each report. Without a bar, a line
  comes every ten seconds. A last line comes at the end.

  Args:
    start: the first step of the training.
    final_step: its last step; None if unknown.
    show: RunConfig.show_progress: False for no bar.
    console: the console for the bar; None for the standard error output.
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
    # The newest report's line, if the log does not have it.
    self._kept: formatting.Fields | None = None
    self._logged_at = clock()
    console = console or console_lib.of_errors()
    self._has_bar = show is not False and console_lib.can_draw(console)
    self._pauses = not console.is_jupyter  # There, each pause would leave an empty cell's output.
    self._bar = _Bar(start, final_step)
    self._line = console_lib.LiveLine(self._bar, console)
    self._show()

  def move(self, step: int, steps_per_second: float) -> None:
    """Moves the bar to a step.

    Args:
      step: the global step.
      steps_per_second: the speed since the last report.
    """
    self._bar.step = step
    if self._bar.report is None:  # From then on the bar has the log's speed.
      self._bar.steps_per_second = steps_per_second
    self._show()

  def report(self, step: int, report: Mapping[str, float]) -> None:
    """Shows a report; see `line`."""
    self._bar.step, self._bar.report = step, report
    self._bar.steps_per_second = report["steps_per_second"]
    text = line(step, self._final_step, report)
    if console_lib.are_lines_shown_here() and (
      self._line.is_shown or self._clock() - self._logged_at < _SECONDS_BETWEEN_LINES
    ):
      self._kept = text
      return
    self._log(text)

  def pause(self) -> None:
    """Takes the bar away until the next move."""
    if self._pauses:
      self._line.hide()

  def close(self) -> None:
    """Removes the bar, and logs the newest report if only the bar had it."""
    self._line.hide()
    if self._kept is not None:
      self._log(self._kept)

  def _show(self):
    if self._has_bar:
      self._line.show()

  def _log(self, text):
    logging.info("%s", text)
    self._kept, self._logged_at = None, self._clock()
