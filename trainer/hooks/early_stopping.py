"""Ends a training whose evaluations no longer get better.

    run.train_hooks = [@EarlyStopping()]
    EarlyStopping.metric = "accuracy"
    EarlyStopping.mode = "max"
    EarlyStopping.patience = 3              # evaluations

It keeps nothing of its own: each decision is made from the evaluations that model_dir tells of, so
that patience is not reset by a restart and the evaluations may be another process's.
"""

from absl import logging

from trainer import errors, run_config
from trainer.checkpoints import retention
from trainer.config import gin_names
from trainer.hooks import every
from trainer.reporting import host_metrics as metrics_lib

# How often it looks for the evaluations of another process.
_LOOK_SECONDS = 10.0


@gin_names.configurable(module="trainer")
class EarlyStopping:
  """A hook.

  Args:
    metric: name of a metric of the evaluations, or "loss".
    mode: "min" or "max": which is better.
    patience: int > 0; ends the training after so many evaluations without a better one.
    patience_steps: int > 0; ends it after so many steps without one, in place of patience.
    min_delta: float ≥ 0; what is better by less does not count as better.
    evaluation: the name of the evaluation that tells, "" for the one without a name.
    clock: seconds; default: time.monotonic.

  Raises:
    SettingError: a value that cannot work; or, at the first evaluation, there is no such metric.
  """

  def __init__(
    self,
    metric="loss",
    mode="min",
    patience=None,
    patience_steps=None,
    min_delta=0.0,
    evaluation="",
    clock=None,
  ):
    run_config.require_min_or_max(mode, "EarlyStopping.mode")
    if (patience is None) == (patience_steps is None):
      raise errors.SettingError(
        "EarlyStopping: set patience (evaluations) or patience_steps, one of them."
      )
    for name, value in (("patience", patience), ("patience_steps", patience_steps)):
      if value is not None:
        run_config.require_positive_int(value, f"EarlyStopping.{name}")
    if min_delta < 0:
      raise errors.SettingError(f"EarlyStopping.min_delta must be at least 0; got {min_delta}.")
    self._metric = metric
    self._mode = mode
    self._patience = patience
    self._patience_steps = patience_steps
    self._min_delta = min_delta
    self._evaluation = evaluation
    self._told = None  # the step of the evaluation that was last decided on
    self._look_due = every.Every(seconds=_LOOK_SECONDS, **({"clock": clock} if clock else {}))

  def begin(self, estimator):
    """Whether the training ended already, in an earlier process."""
    return self._decide(estimator.model_dir, estimator.latest_step() or 0)

  def evaluated(self, step, name, metrics, estimator):
    """Decides after an evaluation in this process."""
    if name != self._evaluation:
      return False
    metrics_lib.scalar(metrics, self._metric, "EarlyStopping.metric")
    return self._decide(estimator.model_dir, step)

  def __call__(self, step, metrics, estimator):
    return self._look_due.due(step) and self._decide(estimator.model_dir, step)

  def _decide(self, model_dir, step):
    """Whether to stop, by the evaluations of checkpoints up to a step: later ones are of a
    training that was cut off there and is done again.
    """
    values = retention.read_metrics(model_dir, self._evaluation, self._metric)
    evaluated = sorted(at for at in values if at <= step)
    if not evaluated:
      return False
    best_at, since = evaluated[0], 0
    for at in evaluated[1:]:
      gain = values[at] - values[best_at] if self._mode == "max" else values[best_at] - values[at]
      if gain > self._min_delta:
        best_at, since = at, 0
      else:
        since += 1
    last = evaluated[-1]
    stop = since >= self._patience if self._patience else last - best_at >= self._patience_steps
    if last != self._told:
      self._told = last
      left = (
        f"{since} of {self._patience} evaluations"
        if self._patience
        else f"{last - best_at} of {self._patience_steps} steps"
      )
      logging.info(
        "Early stopping: %s is %.5g at step %d; best %.5g at step %d, %s without a better one: %s.",
        self._metric,
        values[last],
        last,
        values[best_at],
        best_at,
        left,
        "the training ends" if stop else "it goes on",
      )
    return stop
