"""tf.estimator.experimental.InMemoryEvaluatorHook: evaluations within a training."""

from collections.abc import Callable
from typing import Any

from trainer.compat.estimator.hooks import PeriodicHook, Timer


class InMemoryEvaluatorHook(PeriodicHook):
  """Evaluates before the first step, at an interval of steps, and after the last step.

  Each evaluation saves a checkpoint first, and evaluates it.

  Args:
    estimator: the Estimator that trains.
    input_fn: see Estimator.evaluate; also for steps, hooks and name.
    every_n_iter: the number of steps between two evaluations.

  Raises:
    ValueError: every_n_iter is not positive.
  """

  def __init__(
    self,
    estimator: Any,
    input_fn: Callable,
    steps: int | None = None,
    hooks: Any = None,
    name: str | None = None,
    every_n_iter: int = 100,
  ):
    if every_n_iter is None or every_n_iter <= 0:
      raise ValueError(f"invalid every_n_iter={every_n_iter}.")
    self._estimator = estimator
    self._arguments = dict(input_fn=input_fn, steps=steps, hooks=hooks, name=name)
    self.timer: Timer = Timer(every_n_iter, None, "InMemoryEvaluatorHook")

  def start(self, estimator: Any) -> None:
    self._evaluate(estimator)

  def act(self, step: int, estimator: Any, seconds: float | None, steps: int | None) -> None:
    self._evaluate(estimator)

  def stop(self, step: int, estimator: Any) -> None:
    if step != self.timer.last_triggered_step():
      self._evaluate(estimator)

  def _evaluate(self, running: Any) -> None:
    running.save_checkpoint()
    running.wait_for_checkpoint()
    self.timer.update_last_triggered_step(running.latest_step())
    self._estimator.evaluate(**self._arguments)
