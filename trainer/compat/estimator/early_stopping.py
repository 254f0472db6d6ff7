"""Early stopping by a run's evaluations, as in tf.estimator.experimental."""

import operator
import os
from collections.abc import Callable
from typing import Any

from absl import logging

from trainer import errors
from trainer.compat.estimator.hooks import NativeHook, PeriodicHook, Timer
from trainer.reporting import metrics_file


class _EarlyStoppingHook(PeriodicHook):
  """Calls should_stop_fn at an interval in steps or seconds, from the first step."""

  def __init__(self, should_stop_fn: Callable[[], bool], seconds: float | None, steps: int | None):
    self._should_stop = should_stop_fn
    self.timer = Timer(steps, seconds, "make_early_stopping_hook")

  def act(self, step: int, estimator: Any, seconds: float | None, steps: int | None) -> bool:
    if not self._should_stop():
      return False
    logging.info("Requesting early stopping at global step %d", step)
    return True


def make_early_stopping_hook(
  estimator: Any,
  should_stop_fn: Callable[[], bool],
  run_every_secs: float | None = 60,
  run_every_steps: int | None = None,
) -> NativeHook:
  """Returns a hook that ends the training once should_stop_fn returns True.

  Args:
    run_every_secs, run_every_steps: the interval of the calls, which come after a loop; one of the
      two is None.
  """
  del estimator
  return _EarlyStoppingHook(should_stop_fn, run_every_secs, run_every_steps)


def stop_if_no_increase_hook(
  estimator: Any,
  metric_name: str,
  max_steps_without_increase: int,
  eval_dir: str | None = None,
  min_steps: int = 0,
  **when: Any,
) -> NativeHook:
  """Ends the training if a metric has not increased for an interval of steps.

  Args:
    eval_dir: that of the evaluations; None for estimator.eval_dir().
    min_steps: the first step whose evaluation counts.
    when: run_every_secs and run_every_steps, see make_early_stopping_hook.
  """
  most = max_steps_without_increase
  return _without_progress(estimator, metric_name, operator.gt, most, eval_dir, min_steps, when)


def stop_if_no_decrease_hook(
  estimator: Any,
  metric_name: str,
  max_steps_without_decrease: int,
  eval_dir: str | None = None,
  min_steps: int = 0,
  **when: Any,
) -> NativeHook:
  """As stop_if_no_increase_hook, for a metric that is better if lower."""
  most = max_steps_without_decrease
  return _without_progress(estimator, metric_name, operator.lt, most, eval_dir, min_steps, when)


def _without_progress(
  estimator: Any,
  metric_name: str,
  is_better: Callable[[float, float], bool],
  most_steps: int,
  eval_dir: str | None,
  min_steps: int,
  when: dict[str, Any],
) -> NativeHook:
  def should_stop() -> bool:
    best: tuple[int, float] | None = None
    for step, value in _values(estimator, metric_name, eval_dir, min_steps).items():
      if best is None or is_better(value, best[1]):
        best = step, value
      if step - best[0] >= most_steps:
        return True
    return False

  return make_early_stopping_hook(estimator, should_stop, **when)


def _values(
  estimator: Any, metric_name: str, eval_dir: str | None, min_steps: int
) -> dict[int, float]:
  """Returns a dict of step → the metric in the step's evaluation.

  Raises:
    SettingError: an evaluation lacks the metric.
  """
  found = read_eval_metrics(eval_dir or estimator.eval_dir())
  for step, metrics in found.items():
    if metric_name not in metrics:
      raise errors.SettingError(
        f"Early stopping: the evaluation at step {step} has no metric {metric_name!r}; it has "
        f"{', '.join(sorted(metrics))}."
      )
  return {step: found[step][metric_name] for step in found if step >= min_steps}


def read_eval_metrics(eval_dir: str) -> dict[int, dict[str, float]]:
  """Returns a dict of step → metrics, from the evaluations in Estimator.eval_dir()."""
  model_dir, name = os.path.split(eval_dir.rstrip("/"))
  kind = metrics_file.eval_kind(name.removeprefix("eval").removeprefix("_") or None)
  found: dict[int, dict[str, float]] = {}
  for row in metrics_file.read(model_dir):
    if row["kind"] == kind:
      found[row["step"]] = {k: v for k, v in row.items() if k not in ("kind", "step", "time")}
  return dict(sorted(found.items()))
