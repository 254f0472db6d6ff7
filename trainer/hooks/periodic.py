"""A hook made of what to do and when.

Example:
    run.train_hooks = [@Periodic()]
    Periodic.what = @my_model.log_confusion            # a function of (step, metrics, estimator)
    Periodic.steps = 500
    Periodic.at_end = True
"""

from trainer import errors
from trainer.config import gin_names
from trainer.hooks import every


@gin_names.configurable(module="trainer")
class Periodic:
  """Calls a function every so many steps or seconds, at certain steps, at the end; whichever of
  them is set.

  Args:
    what: `what(step, metrics, estimator)`; a true result ends the training.
    steps: int > 0: at the multiples of so many steps.
    seconds: float > 0: at the first loop's end after so many seconds.
    at: list of ints: at these steps.
    at_end: whether also when the training ends; metrics are then those of its last loop.
    clock: seconds; default: time.monotonic.

  Raises:
    SettingError: what is not callable, or it would never be called.
  """

  def __init__(self, what, steps=None, seconds=None, at=(), at_end=False, clock=None):
    if not callable(what):
      raise errors.SettingError(
        f"Periodic.what must be a function of (step, metrics, estimator); got {what!r}."
      )
    if not (steps or seconds or at or at_end):
      raise errors.SettingError(
        "Periodic: set steps, seconds, at or at_end; as it is, it would never be called."
      )
    self._what = what
    self._at_end = at_end
    self._timer = every.Every(
      steps=steps, seconds=seconds, at=at, **({"clock": clock} if clock else {})
    )
    self._last = None, {}

  def begin(self, estimator):
    self._timer.restart(estimator.latest_step() or 0)

  def __call__(self, step, metrics, estimator):
    self._last = step, metrics
    return self._timer.due(step) and self._what(step, metrics, estimator)

  def next_step(self, step):
    """See trainer.hooks."""
    return self._timer.next_step(step)

  def end(self, step, estimator):
    if self._at_end:
      self._what(step, self._last[1], estimator)
