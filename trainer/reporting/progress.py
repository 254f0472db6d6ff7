"""Shows the progress of a training: log lines, and a progress bar on a terminal.

A line has the step, loss, learning rate, examples/s, ms/step, the share of time spent waiting for
input, and the remaining time.
"""

import datetime
from collections.abc import Mapping

from absl import logging
from rich import console as rich_console
from rich import progress as rich_progress


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
    f"{_three_digits(1000 / report['steps_per_second'])} ms/step",
    f"input wait {report['input_wait']:.0%}",
  ]
  if final_step:
    parts.append(
      f"ETA {datetime.timedelta(seconds=round((final_step - step) / report['steps_per_second']))}"
    )
  return "  ".join(parts)


def _three_digits(value):
  return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class Progress:
  """Logs the lines of reports, and shows a bar below them if the output is a terminal.

  Args:
    start: the step at which the training starts.
    final_step: the step at which it ends; None if it is not known.
    console: where the bar is drawn; None for the standard error output.
  """

  def __init__(
    self, start: int, final_step: int | None, console: rich_console.Console | None = None
  ) -> None:
    self._final_step = final_step
    self._bar: rich_progress.Progress | None = None
    console = console or rich_console.Console(stderr=True)
    if console.is_terminal:
      self._bar = rich_progress.Progress(
        rich_progress.TextColumn("train"),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TextColumn("step {task.completed}"),
        rich_progress.TimeRemainingColumn(),
        console=console,
        transient=True,
      )
      self._task = self._bar.add_task("train", total=final_step, completed=start)
      self._bar.start()

  def move(self, step: int) -> None:
    """Moves the bar to a step."""
    if self._bar:
      self._bar.update(self._task, completed=step)

  def report(self, step: int, report: Mapping[str, float]) -> None:
    """Logs the line of a report; see `line`."""
    logging.info("%s", line(step, self._final_step, report))

  def close(self) -> None:
    """Removes the bar."""
    if self._bar:
      self._bar.stop()
