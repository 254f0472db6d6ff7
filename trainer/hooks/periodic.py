"""A hook that calls a function from time to time.

Example:
    run.train_hooks = [@Periodic()]
    Periodic.what = @my_model.log_confusion            # a function of (step, metrics, estimator)
    Periodic.steps = 500
    Periodic.at_end = True
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer import errors
from trainer.config import gin_names
from trainer.hooks import every
from trainer.hooks.estimator_protocol import Estimator
from trainer.settings import setting_types


@gin_names.configurable(module="trainer")
class Periodic:
  """Calls a function at some of the steps, chosen by one or several of the arguments.

  Args:
    what: called as `what(step, metrics, estimator)`; a true result ends the training.
    steps: int > 0; called at its multiples.
    seconds: float > 0; called at the end of the first loop after this many seconds.
    at: called at these steps.
    at_end: whether to call it at the end of the training, with the metrics of the last loop.
    clock: returns seconds; None for time.monotonic.

  Raises:
    SettingError: what is not callable, or no argument gives it a time.
  """

  def __init__(
    self,
    what: Callable[[int, Mapping[str, float], Any], Any],
    steps: setting_types.Count | None = None,
    seconds: setting_types.Positive | None = None,
    at: Sequence[setting_types.Natural] = (),
    at_end: bool = False,
    clock: Callable[[], float] | None = None,
  ) -> None:
    if not (steps or seconds or at or at_end):
      raise errors.SettingError(
        "Periodic has no time to call its function: set steps, seconds, at or at_end."
      )
    self._what = what
    self._at_end = at_end
    self._timer = every.Every(steps=steps, seconds=seconds, at=at, clock=clock or time.monotonic)
    self._last_metrics: Mapping[str, float] = {}

  def begin(self, estimator: Estimator) -> None:
    """Starts the timer at the checkpoint's step."""
    self._timer.restart(estimator.latest_step() or 0)

  def __call__(self, step: int, metrics: Mapping[str, float], estimator: Estimator) -> Any:
    """Calls the function if it is due, and returns its result."""
    self._last_metrics = metrics
    return self._timer.due(step) and self._what(step, metrics, estimator)

  def next_step(self, step: int) -> int | None:
    """Returns the next step that makes the function due."""
    return self._timer.next_step(step)

  def end(self, step: int, estimator: Estimator) -> None:
    """Calls the function if `at_end` is True."""
    if self._at_end:
      self._what(step, self._last_metrics, estimator)
