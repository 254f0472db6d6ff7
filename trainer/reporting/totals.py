"""Sums over the loops since the last report."""


class Totals:
  """Adds up loop.LoopResults.

  Args:
    batch_size: examples in a step.
  """

  def __init__(self, batch_size):
    self._batch_size = batch_size
    self._steps = 0
    self._loss = 0.0
    self._seconds = 0.0
    self._input_seconds = 0.0
    self._scalars = {}

  @property
  def is_empty(self):
    """Whether nothing was added since the last report."""
    return not self._steps

  def add(self, result):
    """Takes a loop's result in."""
    self._steps += result.steps
    self._loss += result.loss * result.steps
    self._seconds += result.seconds
    self._input_seconds += result.input_seconds
    self._scalars = result.scalars

  def take(self):
    """dict of floats, and starts anew: the newest summary scalars, "loss" (the mean over the
    steps), "steps_per_second", "examples_per_second" and "input_wait" (the share of the time that
    the device had no batch).
    """
    rate = self._steps / self._seconds
    report = dict(
      self._scalars,
      loss=self._loss / self._steps,
      steps_per_second=rate,
      examples_per_second=rate * self._batch_size,
      input_wait=self._input_seconds / self._seconds,
    )
    self.__init__(self._batch_size)
    return report
