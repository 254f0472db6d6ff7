"""The evaluations of a run by its EvalSpecs: which are due, which are owed, what is exported.

Example:
    evaluations = Evaluations(estimator, [EvalSpec(eval_input_fn)], time.monotonic)
    evaluations.do_owed()           # what an earlier process was to do when it was killed
    evaluations.before_save(step)   # around each checkpoint of a training
    evaluations.when_saved(step, hooks)
    evaluations.finish()            # the last checkpoint
"""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from absl import logging

from trainer import errors
from trainer.checkpoints import directory, leases
from trainer.config import gin_names
from trainer.evaluation import pending
from trainer.outputs import exporters as exporters_lib
from trainer.programs import loop_input
from trainer.reporting import evaluations_file, metrics_file
from trainer.settings import setting_types


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class EvalSpec:
  """What to evaluate, and how often; see Estimator.evaluate.

  Attributes:
    steps: global batches; None for the whole set.
    name: keeps the summaries of several evaluations apart.
    throttle_secs: the least time between two evaluations; the last checkpoint is always evaluated.
      After a restart it is counted from the last evaluation of this name that metrics.jsonl tells
      of, by the wall clock: the time in which no process ran counts as well. If the clock was set
      back since, the next checkpoint is evaluated.
    exporters: see trainer.outputs.exporters; asked after each evaluation.

  Raises:
    SettingError: a value that cannot work.
  """

  input_fn: loop_input.InputFn
  steps: setting_types.Count | None = None
  name: setting_types.InnerPath | None = None
  hooks: Sequence = ()
  throttle_secs: setting_types.NotNegative = 0
  exporters: Sequence = ()


def check_specs(eval_specs: Sequence[EvalSpec]) -> None:
  """Checks that EvalSpecs can be used together.

  Raises:
    SettingError: one is no EvalSpec, two have one name, or two exporters one folder.
  """
  wrong = [spec for spec in eval_specs if not isinstance(spec, EvalSpec)]
  if wrong:
    raise errors.SettingError(
      f"{wrong[0]!r} is no EvalSpec; in gin, run.eval_specs is a list such as [@test/EvalSpec()]."
    )
  names = [spec.name for spec in eval_specs]
  repeated = [name for name in names if names.count(name) > 1]
  if repeated:
    raise errors.SettingError(
      f"{len(repeated)} EvalSpecs have the name {repeated[0]!r}; give each its own."
    )
  exporters_lib.check_outputs(
    (exporter, f"the EvalSpec {spec.name!r}" if spec.name else "the EvalSpec without a name")
    for spec in eval_specs
    for exporter in spec.exporters
  )


class Evaluations:
  """The evaluations of a run by its EvalSpecs, and what their exporters do with them.

  Each is noted as owed before it begins, and the note is removed when its result is recorded and
  exported, and the hooks have heard of it. If one of them stops the training, or has not heard of
  it yet, the note stays until the run has ended: the next process is to stop there too.

  Args:
    estimator: the Estimator.
    specs: the EvalSpecs.
    clock: seconds.

  Attributes:
    estimator: the Estimator.
    results: name of an EvalSpec → metrics of its newest evaluation.
  """

  def __init__(self, estimator: Any, specs: Sequence[EvalSpec], clock: Callable[[], float]) -> None:
    check_specs(specs)
    self.estimator = estimator
    self._specs = specs
    self._clock = clock
    # By name, of those whose last time is known.
    self._last_time: dict[str | None, float] = {}
    self._due: list[EvalSpec] = []  # of the checkpoint that is being written
    # (step, EvalSpec, result) of what was owed and no hook has heard of.
    self._unheard: list[tuple] = []
    self._kept: list[tuple] = []  # (step, EvalSpec) of the notes that stay until the run has ended
    self.results: dict[str | None, dict[str, Any]] = {}

  def do_owed(self) -> None:
    """Does what an earlier process was to do when it was killed, with the checkpoint of that time.

    `tell_of_owed` finds out whether the training stops there.

    Raises:
      FileDamagedError: what is noted of evaluations is damaged, and would be at the first one.
    """
    evaluations_file.read(self.estimator.model_dir, "")
    owed = self._owed()
    if owed:  # exporters compare them with what they remember, which may be of later steps
      self.estimator.go_back()
    for step, spec in owed:
      try:
        self._evaluate(spec, self.estimator.checkpoint_path(step))
      except (errors.CheckpointNotFoundError, errors.CheckpointDamagedError) as error:
        logging.warning("Not evaluated: %s", error)
        self._settle(step, spec)
      else:
        self._unheard.append((step, spec, self.results[spec.name]))

  def tell_of_owed(self, hooks: Iterable[Any]) -> bool:
    """Tells hooks what came of that; returns whether one of them stops the training."""
    unheard, self._unheard = self._unheard, []
    stop = False
    for step, spec, result in unheard:
      stop = self._tell(hooks, step, spec, result) or stop
    return stop

  def before_save(self, step: int) -> None:
    """Notes which evaluations the checkpoint of a step, which is about to be written, will owe.

    A note that came after it could be missing when the process is killed in between.
    """
    workers = self.estimator.workers
    # All workers must evaluate together, whatever their clocks say.
    self._due = [spec for spec in self._specs if workers.broadcast_from_chief(self._is_due(spec))]
    for spec in self._due:
      self._note(step, spec)

  def when_saved(self, step: int, hooks: Iterable[Any]) -> bool:
    """Evaluates the checkpoint that was just written, by the specs whose time it was before that.

    Returns whether one of the hooks that hear of it stops the training.
    """
    due, self._due = self._due, []
    if step not in self.estimator.checkpoint_steps():
      # It could not be written, and the training goes on without: there is nothing to read.
      for spec in due:
        self._settle(step, spec)
      return False
    stop = False
    for spec in due:
      self._evaluate(spec)
      stop = self._tell(hooks, step, spec, self.results[spec.name]) or stop
    return stop

  def once(self, step: int) -> None:
    """Evaluates a checkpoint by the specs by which it was not evaluated before.

    A checkpoint that is gone or damaged is passed over.
    """
    possible = [(step, spec.name or "") for spec in self._specs]
    owed = pending.read(self.estimator.model_dir, possible)
    path = self.estimator.checkpoint_path(step)
    with leases.lease(path):  # for all EvalSpecs, and what they export
      for spec in self._specs:
        name = spec.name or ""
        done = set(evaluations_file.read(self.estimator.model_dir, name))
        if step not in done or (step, name) in owed:
          self._note(step, spec)
          try:
            self._evaluate(spec, path)
          except (errors.CheckpointNotFoundError, errors.CheckpointDamagedError) as error:
            logging.warning("Not evaluated: %s", error)
          self._settle(step, spec)

  def finish(self) -> None:
    """Evaluates the last checkpoint by the specs by which this was not done.

    Tells the exporters that it was the last.
    """
    for spec in self._specs:
      if self._step_of(spec) != self.estimator.latest_step():
        self._evaluate(spec, is_final=True)
      else:
        self._export(spec, is_final=True)
    for step, spec in [*self._kept, *((step, spec) for step, spec, _ in self._unheard)]:
      self._settle(step, spec)

  def tell_exporters(self) -> None:
    """Tells the exporters that the last evaluation was the last."""
    for spec in self._specs:
      if spec.name in self.results:
        self._export(spec, is_final=True)

  def _owed(self):
    """Returns what is owed as (step, EvalSpec), the same on all workers.

    A note of a checkpoint that was not written in the end, or of an EvalSpec that is gone, is
    removed.
    """
    specs = {spec.name or "": spec for spec in self._specs}
    found = []
    if self.estimator.device.is_chief:
      # It may have been written, and not put in its place.
      checkpoints = directory.CheckpointDirectory(self.estimator.model_dir)
      checkpoints.recover()
      steps = self.estimator.checkpoint_steps()
      passed_over = checkpoints.passed_over()
      possible = itertools.product(steps, specs)
      for step, name in pending.read(self.estimator.model_dir, possible):
        if step in passed_over:
          continue  # it is moved aside with its checkpoint
        if step in steps and name in specs:
          found.append((step, list(specs).index(name)))
          continue
        if step in steps:
          logging.warning(
            "The checkpoint of step %d owes the evaluation %r, and no EvalSpec has this name: it "
            "is not evaluated.",
            step,
            name,
          )
        pending.settle(self.estimator.checkpoint_path(step), name)
    broadcast = self.estimator.workers.broadcast_from_chief
    count = broadcast(len(found))
    pairs = found or [(0, 0)] * count
    return [
      (broadcast(step), list(specs.values())[broadcast(index)]) for step, index in pairs[:count]
    ]

  def _is_due(self, spec):
    return self._clock() - self._time_of_last(spec) >= spec.throttle_secs

  def _time_of_last(self, spec):
    """When this spec's last evaluation was, also that of an earlier process."""
    if spec.name not in self._last_time:
      kind = metrics_file.eval_kind(spec.name)
      known = metrics_file.seconds_since(self.estimator.model_dir, kind)
      self._last_time[spec.name] = float("-inf") if known is None else self._clock() - known
    return self._last_time[spec.name]

  def _note(self, step, spec):
    if self.estimator.device.is_chief:
      pending.note(self.estimator.checkpoint_path(step), spec.name or "")

  def _settle(self, step, spec):
    if self.estimator.device.is_chief:
      pending.settle(self.estimator.checkpoint_path(step), spec.name or "")

  def _tell(self, hooks, step, spec, result):
    """Tells each hook of an evaluation; returns whether one of them stops the training."""
    stop = False
    for hook in hooks:
      if hasattr(hook, "evaluated"):
        stop = bool(hook.evaluated(step, spec.name or "", result, self.estimator)) or stop
    if stop:
      self._kept.append((step, spec))
    else:
      self._settle(step, spec)
    return stop

  def _step_of(self, spec):
    return self.results[spec.name]["global_step"] if spec.name in self.results else None

  def _evaluate(self, spec, path=None, is_final=False):
    """Evaluates a checkpoint, the newest by default, and exports."""
    self.results[spec.name] = self.estimator.evaluate(
      spec.input_fn, steps=spec.steps, hooks=list(spec.hooks), name=spec.name, checkpoint_path=path
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


class TellOfOwed:
  """A hook, the last of a training, that tells the others of what was evaluated before.

  The others have begun by then.

  Args:
    evaluations: the Evaluations.
    hooks: the other hooks.
  """

  def __init__(self, evaluations: Evaluations, hooks: Sequence[Any]) -> None:
    self._evaluations = evaluations
    self._hooks = hooks

  def begin(self, estimator: Any) -> bool:
    """Tells the others; returns whether one of them stops the training."""
    return self._evaluations.tell_of_owed(self._hooks)

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    """Does nothing after a loop."""
    return False
