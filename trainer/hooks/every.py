"""A timer for hooks: due every so many steps or seconds, or at certain steps."""

import time
from collections.abc import Callable, Iterable


class Every:
  """A timer to ask after each device loop whether it is due.

  The timer is due if the global step has reached or passed a multiple of `steps` or a step of `at`,
  or if `seconds` have gone by. A loop may pass several of these steps at once; the timer is then
  due once. The timer works again after a training goes back to an earlier step.

  Args:
    steps: due at the multiples of this number; None for never.
    seconds: due after this many seconds; None for never.
    at: steps to be due at.
    start: the global step to count from.
    clock: returns seconds.
  """

  def __init__(
    self,
    *,
    steps: int | None = None,
    seconds: float | None = None,
    at: Iterable[int] = (),
    start: int = 0,
    clock: Callable[[], float] = time.monotonic,
  ) -> None:
    self._steps = steps
    self._seconds = seconds
    self._at = sorted(at)
    self._clock = clock
    self._last_step = start
    self._last_time = clock()

  def restart(self, step: int) -> None:
    """Counts steps from this step, and seconds from now."""
    self._last_step, self._last_time = step, self._clock()

  def is_due(self, step: int) -> bool:
    """Whether the timer is due at this step."""
    # A training that went back to a checkpoint. The timer does not know its step.
    if step < self._last_step:
      self._last_step = step - 1
    by_steps = self._steps is not None and step // self._steps > self._last_step // self._steps
    by_seconds = self._seconds is not None and self._clock() - self._last_time >= self._seconds
    by_list = any(self._last_step < at <= step for at in self._at)
    return by_steps or by_seconds or by_list

  def due(self, step: int) -> bool:
    """Whether the timer is due at this step; if so, it also restarts."""
    if is_due := self.is_due(step):
      self.restart(step)
    return is_due

  def next_step(self, step: int) -> int | None:
    """Returns the next step after this one that makes the timer due, or None."""
    following = [at for at in self._at if at > step][:1]
    if self._steps:
      following.append((step // self._steps + 1) * self._steps)
    return min(following, default=None)
