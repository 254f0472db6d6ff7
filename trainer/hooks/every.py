"""When: every so many steps or seconds."""

import time


class Every:
  """Tells at loop boundaries whether it is time again; true when a multiple of `steps` was reached or passed, or `seconds` have gone by.

  Args:
    steps: int or None.
    seconds: float or None.
    start: the global step to count from.
    clock: seconds.
  """

  def __init__(self, *, steps=None, seconds=None, start=0, clock=time.monotonic):
    self._steps = steps
    self._seconds = seconds
    self._clock = clock
    self._last_step = start
    self._last_time = clock()

  def due(self, step):
    """Whether it is time at this step; if so, the time until the next one starts."""
    by_steps = self._steps is not None and step // self._steps > self._last_step // self._steps
    by_seconds = self._seconds is not None and self._clock() - self._last_time >= self._seconds
    if by_steps or by_seconds:
      self._last_step, self._last_time = step, self._clock()
      return True
    return False
