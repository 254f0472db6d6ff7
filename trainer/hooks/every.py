"""When: every so many steps or seconds, or at certain steps."""

import time


class Every:
  """Tells at loop boundaries whether it is time again: a multiple of `steps` or one of `at` was
  reached or passed, or `seconds` have gone by.

  Args:
    steps: int or None.
    seconds: float or None.
    at: steps.
    start: the global step to count from.
    clock: seconds.
  """

  def __init__(self, *, steps=None, seconds=None, at=(), start=0, clock=time.monotonic):
    self._steps = steps
    self._seconds = seconds
    self._at = sorted(at)
    self._clock = clock
    self._last_step = start
    self._last_time = clock()

  def restart(self, step):
    """Counts from this step and this time on."""
    self._last_step, self._last_time = step, self._clock()

  def due(self, step):
    """Whether it is time at this step; if so, the time until the next one starts."""
    by_steps = self._steps is not None and step // self._steps > self._last_step // self._steps
    by_seconds = self._seconds is not None and self._clock() - self._last_time >= self._seconds
    by_list = any(self._last_step < at <= step for at in self._at)
    if by_steps or by_seconds or by_list:
      self.restart(step)
      return True
    return False

  def next_step(self, step):
    """The next step after this one at which it is time by steps, or None."""
    following = [at for at in self._at if at > step][:1]
    if self._steps:
      following.append((step // self._steps + 1) * self._steps)
    return min(following, default=None)
