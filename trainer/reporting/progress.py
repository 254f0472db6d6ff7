"""One line a report: step, loss, learning rate, examples/s, ms/step, time waiting for input,
ETA; on a terminal also a progress bar.
"""

import datetime

from absl import logging
from rich import console as rich_console
from rich import progress as rich_progress


def line(step, final_step, report):
  """The line of a report.

  Args:
    step: the global step.
    final_step: where the training ends, or None if nobody knows.
    report: what hooks.totals.Totals.take returns.
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
  """Logs the lines, above a bar where there is a terminal.

  Args:
    start: the step that the training starts at.
    final_step: the step it ends at, or None.
    console: a rich Console; default: the standard error output.
  """

  def __init__(self, start, final_step, console=None):
    self._final_step = final_step
    self._bar = None
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

  def move(self, step):
    """Moves the bar."""
    if self._bar:
      self._bar.update(self._task, completed=step)

  def report(self, step, report):
    """Logs a line."""
    logging.info("%s", line(step, self._final_step, report))

  def close(self):
    """Takes the bar away."""
    if self._bar:
      self._bar.stop()
