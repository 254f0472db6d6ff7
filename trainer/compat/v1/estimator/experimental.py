"""tf.estimator.experimental: early stopping by the evaluations of a run."""

import os
from collections.abc import Callable
from typing import Any

from absl import logging

from trainer.compat.v1 import overlay
from trainer.compat.v1.estimator.hooks import NativeHook
from trainer.reporting import metrics_file


class _EarlyStoppingHook(NativeHook):
  """Asks should_stop_fn every so many steps."""

  def __init__(self, should_stop_fn: Callable[[], bool], run_every_steps: int | None):
    self._should_stop = should_stop_fn
    self._every = run_every_steps or 1

  def next_step(self, step: int) -> int | None:
    return step - step % self._every + self._every

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    if step % self._every or not self._should_stop():
      return False
    logging.info("Requesting early stopping at global step %d", step)
    return True


def make_early_stopping_hook(
  estimator: Any,
  should_stop_fn: Callable[[], bool],
  run_every_secs: float | None = 60,
  run_every_steps: int | None = None,
) -> NativeHook:
  """A hook that ends the training when should_stop_fn says so; asked after loops."""
  del estimator, run_every_secs
  return _EarlyStoppingHook(should_stop_fn, run_every_steps)


def read_eval_metrics(eval_dir: str) -> dict[int, dict[str, float]]:
  """dict of step → metrics, of the evaluations of an eval_dir (Estimator.eval_dir())."""
  model_dir, name = os.path.split(eval_dir.rstrip("/"))
  kind = metrics_file.eval_kind(name.removeprefix("eval").removeprefix("_") or None)
  found: dict[int, dict[str, float]] = {}
  for row in metrics_file.read(model_dir):
    if row["kind"] == kind:
      found[row["step"]] = {k: v for k, v in row.items() if k not in ("kind", "step", "time")}
  return dict(sorted(found.items()))


__getattr__, __dir__ = overlay.behind(__name__)
