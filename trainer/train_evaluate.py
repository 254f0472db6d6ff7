"""Training with an evaluation of each checkpoint, in one process.

    train_and_evaluate(estimator, TrainSpec(train_input_fn, max_steps=1000), EvalSpec(eval_input_fn, steps=None))
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

from trainer import errors, run_config


@dataclasses.dataclass(frozen=True)
class TrainSpec:
  """What to train on; see Estimator.train.

  Raises:
    SettingError: max_steps is no int > 0.
  """

  input_fn: Callable
  max_steps: int | None = None
  hooks: Sequence = ()
  saving_listeners: Sequence = ()

  def __post_init__(self):
    if self.max_steps is not None:
      run_config.require_positive_int(self.max_steps, "TrainSpec.max_steps")


@dataclasses.dataclass(frozen=True)
class EvalSpec:
  """What to evaluate, and how often; see Estimator.evaluate.

  Attributes:
    steps: global batches; None for the whole set.
    name: keeps the summaries of several evaluations apart.
    throttle_secs: the least time between two evaluations; the last checkpoint is always evaluated.

  Raises:
    SettingError: a value that cannot work.
  """

  input_fn: Callable
  steps: int | None = None
  name: str | None = None
  hooks: Sequence = ()
  throttle_secs: float = 0

  def __post_init__(self):
    if self.steps is not None:
      run_config.require_positive_int(self.steps, "EvalSpec.steps")
    if self.throttle_secs < 0:
      raise errors.SettingError(f"EvalSpec.throttle_secs must be at least 0; got {self.throttle_secs}.")


class _EvaluateWhenSaved:
  """A saving listener that evaluates each checkpoint but that of step 0."""

  def __init__(self, estimator, eval_specs, clock):
    self._estimator = estimator
    self._specs = eval_specs
    self._clock = clock
    self._last_time = {}
    self._last_step = {}
    self.results = {}

  def begin(self):
    pass

  def before_save(self, session, step):
    pass

  def after_save(self, session, step):
    for spec in self._specs if step else []:
      since = self._clock() - self._last_time.get(spec.name, float("-inf"))
      if since >= spec.throttle_secs:
        self.evaluate(spec, step)

  def end(self, session, step):
    pass

  def evaluate(self, spec, step):
    """Evaluates the newest checkpoint, which is of this step, unless that has been done."""
    if self._last_step.get(spec.name) != step:
      self.results[spec.name] = self._estimator.evaluate(spec.input_fn, steps=spec.steps, hooks=list(spec.hooks), name=spec.name)
      self._last_time[spec.name] = self._clock()
      self._last_step[spec.name] = step


def train_and_evaluate(estimator, train_spec, *eval_specs, clock=time.monotonic):
  """Trains to max_steps and evaluates on the way and at the end, also where the training was complete before.

  Args:
    estimator: an Estimator.
    train_spec: a TrainSpec.
    eval_specs: EvalSpecs with names of their own.
    clock: seconds.

  Returns:
    dict of EvalSpec name → metrics of the last checkpoint.

  Raises:
    SettingError: two EvalSpecs have one name.
  """
  names = [spec.name for spec in eval_specs]
  repeated = [name for name in names if names.count(name) > 1]
  if repeated:
    raise errors.SettingError(f"train_and_evaluate: {len(repeated)} EvalSpecs have the name {repeated[0]!r}; give each its own.")
  evaluator = _EvaluateWhenSaved(estimator, eval_specs, clock)
  estimator.train(
      train_spec.input_fn, hooks=list(train_spec.hooks), max_steps=train_spec.max_steps,
      saving_listeners=[*train_spec.saving_listeners, evaluator])
  for spec in eval_specs:
    evaluator.evaluate(spec, estimator.latest_step())
  return evaluator.results
