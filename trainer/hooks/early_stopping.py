"""A hook that ends a training when its evaluations no longer improve.

    run.train_hooks = [@EarlyStopping()]
    EarlyStopping.metric = "accuracy"
    EarlyStopping.mode = "max"
    EarlyStopping.patience = 3              # evaluations

The hook has no state of its own. It decides from the evaluations in model_dir. So a restart does
not reset the patience, and the evaluations may come from another process.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping

from absl import logging

from trainer import errors
from trainer.config import gin_names
from trainer.hooks import every
from trainer.hooks.estimator_protocol import Estimator
from trainer.reporting import evaluations_file, metric_values
from trainer.settings import setting_types

# Seconds between two checks for evaluations of another process.
_LOOK_SECONDS = 10.0


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(eq=False)
class EarlyStopping:
  """Ends a training when a metric of its evaluations no longer improves.

  Args:
    metric: name of a metric of the evaluations, or "loss".
    mode: "min" or "max": the better values.
    patience: int > 0; the training ends after this many evaluations without a better one.
    patience_steps: int > 0; the training ends after this many steps without a better evaluation.
      Set patience or patience_steps, not both.
    min_delta: float ≥ 0; a smaller improvement does not count.
    evaluation: name of the evaluation to watch; "" for the one without a name.
    clock: returns seconds; None for time.monotonic.

  Raises:
    SettingError: a value cannot work. Later: the metric does not exist.
  """

  reads_variables = False

  metric: str = "loss"
  mode: setting_types.MinOrMax = "min"
  patience: setting_types.Count | None = None
  patience_steps: setting_types.Count | None = None
  min_delta: setting_types.NotNegative = 0.0
  evaluation: str = ""
  clock: Callable[[], float] | None = None

  def __post_init__(self) -> None:
    if (self.patience is None) == (self.patience_steps is None):
      raise errors.SettingError(
        "EarlyStopping: set either patience (evaluations) or patience_steps."
      )
    self._logged_step: int | None = None  # Of the newest evaluation in the log.
    self._look_due = every.Every(seconds=_LOOK_SECONDS, clock=self.clock or time.monotonic)

  def check_metrics(self, names: Iterable[str]) -> None:
    """Raises SettingError if an evaluation lacks the metric."""
    metric_values.require(self.metric, names, "EarlyStopping.metric")

  def begin(self, estimator: Estimator) -> bool:
    """Whether the training has ended already, in an earlier process."""
    return self._decide(estimator.model_dir, estimator.latest_step() or 0)

  def evaluated(
    self, step: int, name: str, metrics: Mapping[str, float], estimator: Estimator
  ) -> bool:
    """Whether to stop after an evaluation in this process."""
    if name != self.evaluation:
      return False
    # This raises if the metric is missing.
    metric_values.scalar(metrics, self.metric, "EarlyStopping.metric")
    return self._decide(estimator.model_dir, step)

  def __call__(self, step: int, metrics: Mapping[str, float], estimator: Estimator) -> bool:
    """Whether to stop because of evaluations of another process; checked every few seconds."""
    return self._look_due.due(step) and self._decide(estimator.model_dir, step)

  def _decide(self, model_dir, step):
    """Whether to stop, judged by the evaluations of checkpoints up to a step.

    Evaluations of later steps come from an interrupted training, and this one repeats these steps.
    """
    values = evaluations_file.read_metric(model_dir, self.evaluation, self.metric)
    evaluated = sorted(at for at in values if at <= step)
    if not evaluated:
      return False
    best_at, since = evaluated[0], 0
    for at in evaluated[1:]:
      gain = values[at] - values[best_at] if self.mode == "max" else values[best_at] - values[at]
      # No number is better than NaN in a comparison.
      is_first_number = math.isnan(values[best_at]) and not math.isnan(values[at])
      if gain > self.min_delta or is_first_number:
        best_at, since = at, 0
      else:
        since += 1
    last = evaluated[-1]
    stop = since >= self.patience if self.patience else last - best_at >= self.patience_steps
    if last != self._logged_step:
      self._logged_step = last
      left = (
        f"{since} of {self.patience} evaluations"
        if self.patience
        else f"{last - best_at} of {self.patience_steps} steps"
      )
      logging.info(
        "Early stopping: %s is %.5g at step %d; best %.5g at step %d, %s without a better one: %s.",
        self.metric,
        values[last],
        last,
        values[best_at],
        best_at,
        left,
        "the training ends" if stop else "it continues",
      )
    return stop
