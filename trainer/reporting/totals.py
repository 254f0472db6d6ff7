"""Sums the results of device loops since the last report."""

from typing import Any


class Totals:
  """Sums the results of device loops and turns them into a report.

  Args:
    batch_size: examples in a step, of all cores together.
  """

  def __init__(self, batch_size: int) -> None:
    self._batch_size = batch_size
    self._clear()

  @property
  def is_empty(self) -> bool:
    """Whether it is empty since the last report."""
    return not self._steps

  @property
  def steps_per_second(self) -> float:
    """The speed of the loops since the last report, at least one."""
    return self._steps / self._seconds

  def add(self, result: Any) -> None:
    """Adds the LoopResult of a device loop."""
    self._steps += result.steps
    self._loss += result.loss * result.steps
    self._seconds += result.seconds
    self._input_seconds += result.input_seconds
    # Summaries are the last step's values, not means over the loop.
    self._scalars = result.scalars

  def take(self) -> dict[str, float]:
    """Returns a report of the loops since the last one, and starts the next.

    The report has the newest summary scalars, "loss" (mean over the steps), "steps_per_second",
    "examples_per_second" and "input_wait" (share of the time that the device waited for a batch).
    """
    rate = self.steps_per_second
    report = dict(
      self._scalars,
      loss=self._loss / self._steps,
      steps_per_second=rate,
      examples_per_second=rate * self._batch_size,
      # The device measures its wait by the wall clock, and somebody may set that meanwhile.
      input_wait=min(1.0, self._input_seconds / self._seconds),
    )
    self._clear()
    return report

  def _clear(self):
    self._steps = 0
    self._loss = 0.0
    self._seconds = 0.0
    self._input_seconds = 0.0
    self._scalars: dict[str, float] = {}
