"""Training with an evaluation of each checkpoint, in one process; or the evaluations alone, beside
a training in another process.

Example:
    best = BestExporter("accuracy", "max")
    eval_spec = EvalSpec(eval_input_fn, exporters=[best])
    train_and_evaluate(estimator, TrainSpec(train_input_fn, max_steps=1000), eval_spec)
    evaluate_continuously(estimator, EvalSpec(eval_input_fn), max_steps=1000)
"""

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Sequence

from absl import logging

from trainer import errors, run_config
from trainer.checkpoints import retention
from trainer.config import gin_names
from trainer.loop import preemption


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


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class EvalSpec:
  """What to evaluate, and how often; see Estimator.evaluate.

  Attributes:
    steps: global batches; None for the whole set.
    name: keeps the summaries of several evaluations apart.
    throttle_secs: the least time between two evaluations; the last checkpoint is always evaluated.
    exporters: see trainer.outputs.exporters; asked after each evaluation.

  Raises:
    SettingError: a value that cannot work.
  """

  input_fn: Callable
  steps: int | None = None
  name: str | None = None
  hooks: Sequence = ()
  throttle_secs: float = 0
  exporters: Sequence = ()

  def __post_init__(self):
    if self.steps is not None:
      run_config.require_positive_int(self.steps, "EvalSpec.steps")
    if self.throttle_secs < 0:
      raise errors.SettingError(
        f"EvalSpec.throttle_secs must be at least 0; got {self.throttle_secs}."
      )


def train_and_evaluate(estimator, train_spec, *eval_specs, clock=time.monotonic):
  """Trains to max_steps and evaluates on the way and at the end, also where the training was
  complete before.

  On machines that TF_CONFIG tells of, the task "evaluator" evaluates what the others save, and the
  others then only train.

  Args:
    estimator: an Estimator.
    train_spec: a TrainSpec. A hook that has `evaluated(step, name, metrics, estimator)` is asked
      after each evaluation whether to stop.
    eval_specs: EvalSpecs with names of their own.
    clock: seconds.

  Returns:
    dict of EvalSpec name → metrics of the last checkpoint.

  Raises:
    SettingError: two EvalSpecs have one name.
  """
  evaluations = _Evaluations(estimator, eval_specs, clock)
  if estimator.device.role == "evaluator":
    return evaluate_continuously(estimator, *eval_specs, max_steps=train_spec.max_steps)
  if estimator.device.has_evaluator:
    estimator.train(
      train_spec.input_fn,
      hooks=list(train_spec.hooks),
      max_steps=train_spec.max_steps,
      saving_listeners=list(train_spec.saving_listeners),
    )
    return {}
  with estimator.alone_in_model_dir():  # also at the last evaluation, and what is exported after it
    estimator.train(
      train_spec.input_fn,
      hooks=list(train_spec.hooks),
      max_steps=train_spec.max_steps,
      saving_listeners=list(train_spec.saving_listeners),
      after_checkpoint=functools.partial(evaluations.when_saved, hooks=train_spec.hooks),
    )
    with preemption.explain_interrupt(
      "in the last evaluation; the training is saved, and the same command "
      "goes on with what is left"
    ):
      evaluations.finish()
  return evaluations.results


def evaluate_continuously(
  estimator,
  *eval_specs,
  max_steps=None,
  timeout_secs=3600.0,
  poll_secs=1.0,
  clock=time.monotonic,
  sleep=time.sleep,
):
  """Evaluates each checkpoint that comes into model_dir once, but that of step 0, in the order of
  their steps.

  A checkpoint is not removed while it is read. Those that were evaluated before, by a process like
  this one, are not evaluated again.

  Args:
    estimator: an Estimator.
    eval_specs: EvalSpecs with names of their own; throttle_secs counts for none of them.
    max_steps: ends after the checkpoint of this step, or a later one; None for no such end.
    timeout_secs: ends when no checkpoint has come for so long.
    poll_secs: how often it looks.
    clock, sleep: seconds.

  Returns:
    dict of EvalSpec name → metrics of the last checkpoint that was evaluated.

  Raises:
    SettingError: two EvalSpecs have one name, or none is given.
  """
  if not eval_specs:
    raise errors.SettingError(
      "evaluate_continuously: there is nothing to evaluate: give an EvalSpec."
    )
  evaluations = _Evaluations(estimator, eval_specs, clock)
  last_time, last_step, seen = clock(), 0, set()
  while max_steps is None or last_step < max_steps:
    new = [step for step in estimator.checkpoint_steps() if step and step not in seen]
    for step in new:
      seen.add(step)
      evaluations.once(step)
      last_step = step
    if new:
      last_time = clock()
    elif clock() - last_time >= timeout_secs:
      logging.warning(
        "No checkpoint has come into %s for %.0f s: the evaluations end at step %d.",
        estimator.model_dir,
        timeout_secs,
        last_step,
      )
      break
    else:
      sleep(poll_secs)
  evaluations.tell_exporters()
  return evaluations.results


def check_specs(eval_specs: Sequence[EvalSpec]) -> None:
  """Raises SettingError where two EvalSpecs have one name."""
  names = [spec.name for spec in eval_specs]
  repeated = [name for name in names if names.count(name) > 1]
  if repeated:
    raise errors.SettingError(
      f"{len(repeated)} EvalSpecs have the name {repeated[0]!r}; give each its own."
    )


class _Evaluations:
  """The evaluations of a run by its EvalSpecs, and what their exporters do with them."""

  def __init__(self, estimator, specs, clock):
    check_specs(specs)
    self.estimator = estimator
    self._specs = specs
    self._clock = clock
    self._last_time = {}
    self.results = {}

  def when_saved(self, step, hooks):
    """Evaluates the checkpoint of a step that was just written, by the specs whose time it is;
    returns whether one of the hooks that hear of it stops the training.
    """
    if step not in self.estimator.checkpoint_steps():
      return False  # it could not be written, and the training goes on without: nothing to read
    stop = False
    hooks = [hook for hook in hooks if hasattr(hook, "evaluated")]
    for spec in self._specs:
      if self._clock() - self._last_time.get(spec.name, float("-inf")) >= spec.throttle_secs:
        self._evaluate(spec)
        for hook in hooks:
          result = self.results[spec.name]
          stop = bool(hook.evaluated(step, spec.name or "", result, self.estimator)) or stop
    return stop

  def once(self, step):
    """Evaluates a checkpoint by the specs by which it was not evaluated before; one that is
    gone or damaged is passed over.
    """
    for spec in self._specs:
      if step not in retention.evaluated_steps(self.estimator.model_dir, spec.name or ""):
        try:
          self._evaluate(spec, self.estimator.checkpoint_path(step))
        except (errors.CheckpointNotFoundError, errors.CheckpointDamagedError) as error:
          logging.warning("Not evaluated: %s", error)

  def finish(self):
    """Evaluates the last checkpoint by the specs by which this was not done, and tells the
    exporters that it was the last.
    """
    for spec in self._specs:
      if self._step_of(spec) != self.estimator.latest_step():
        self._evaluate(spec, is_final=True)
      else:
        self._export(spec, is_final=True)

  def tell_exporters(self):
    """Tells them that the last evaluation was the last."""
    for spec in self._specs:
      if spec.name in self.results:
        self._export(spec, is_final=True)

  def _step_of(self, spec):
    return self.results[spec.name]["global_step"] if spec.name in self.results else None

  def _evaluate(self, spec, path=None, is_final=False):
    """Evaluates a checkpoint, the newest by default, and exports, with one lease for both."""
    with retention.lease(path, f"{os.getpid()}-exports") if path else contextlib.nullcontext():
      self.results[spec.name] = self.estimator.evaluate(
        spec.input_fn,
        steps=spec.steps,
        hooks=list(spec.hooks),
        name=spec.name,
        checkpoint_path=path,
      )
      self._last_time[spec.name] = self._clock()
      self._export(spec, is_final)

  def _export(self, spec, is_final):
    result = self.results[spec.name]
    path = self.estimator.checkpoint_path(result["global_step"])
    for exporter in spec.exporters if self.estimator.device.is_chief else ():
      exporter.export(
        self.estimator,
        os.path.join(self.estimator.model_dir, "export", exporter.name).rstrip("/"),
        path,
        result,
        is_final,
      )
