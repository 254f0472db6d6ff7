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
from trainer.checkpoints import directory, owed_evaluations, retention
from trainer.config import gin_names
from trainer.loop import preemption
from trainer.outputs import exporters as exporters_lib
from trainer.reporting import metrics_file


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
      After a restart it is counted from the last evaluation of this name that metrics.jsonl tells
      of, by the wall clock: the time in which no process ran counts as well.
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
    if self.name is not None:
      run_config.require_inner_path(self.name, "EvalSpec.name")
    if self.throttle_secs < 0:
      raise errors.SettingError(
        f"EvalSpec.throttle_secs must be at least 0; got {self.throttle_secs}."
      )


def check_specs(eval_specs: Sequence[EvalSpec]) -> None:
  """Checks that EvalSpecs can be used together.

  Raises:
    SettingError: two have one name, or two exporters one folder.
  """
  names = [spec.name for spec in eval_specs]
  repeated = [name for name in names if names.count(name) > 1]
  if repeated:
    raise errors.SettingError(
      f"{len(repeated)} EvalSpecs have the name {repeated[0]!r}; give each its own."
    )
  exporters_lib.check_folders(
    (exporter, f"the EvalSpec {spec.name!r}" if spec.name else "the EvalSpec without a name")
    for spec in eval_specs
    for exporter in spec.exporters
  )


def train_and_evaluate(estimator, train_spec, *eval_specs, clock=time.monotonic):
  """Trains to max_steps and evaluates on the way and at the end, also where the training was
  complete before.

  On machines that TF_CONFIG tells of, the task "evaluator" evaluates what the others save, and the
  others then only train.

  Where a process is killed between a checkpoint and the end of its evaluation, the next call
  evaluates this checkpoint before it goes on with the training; so the evaluations, what they stop,
  and what is exported are those of a training that was left alone.

  Args:
    estimator: an Estimator.
    train_spec: a TrainSpec. A hook that has `evaluated(step, name, metrics, estimator)` is asked
      after each evaluation whether to stop; of one that an earlier process owed, after `begin`.
    eval_specs: EvalSpecs with names of their own.
    clock: seconds.

  Returns:
    dict of EvalSpec name → metrics of the last checkpoint.

  Raises:
    SettingError: two EvalSpecs have one name, or two exporters one folder.
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
    with preemption.explain_interrupt(
      "in an evaluation that an earlier process owed; the same command goes on with it"
    ):
      evaluations.do_owed()
    estimator.train(
      train_spec.input_fn,
      hooks=[*train_spec.hooks, _TellOfOwed(evaluations, train_spec.hooks)],
      max_steps=train_spec.max_steps,
      saving_listeners=list(train_spec.saving_listeners),
      before_checkpoint=evaluations.before_save,
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
  this one, are not evaluated again, but where that process was killed before it had exported.

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
    SettingError: two EvalSpecs have one name, two exporters have one folder, or no EvalSpec is
      given.
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


class _Evaluations:
  """The evaluations of a run by its EvalSpecs, and what their exporters do with them.

  Each is noted as owed before it begins, and the note is removed when its result is recorded and
  exported, and the hooks have heard of it. If one of them stops the training, or has not heard of
  it yet, the note stays until the run has ended: the next process is to stop there too.
  """

  def __init__(self, estimator, specs, clock):
    check_specs(specs)
    self.estimator = estimator
    self._specs = specs
    self._clock = clock
    self._last_time = {}  # by name, of the evaluations that a time is known of
    self._due = []  # EvalSpecs, of the checkpoint that is being written
    self._unheard = []  # (step, EvalSpec, result) of what was owed, which no hook has heard of
    self._kept = []  # (step, EvalSpec) of the notes that stay until the run has ended
    self.results = {}

  def do_owed(self):
    """Does what an earlier process was to do when it was killed, with the checkpoint that this was
    about. Whether the training stops there, `tell_of_owed` hears.
    """
    for step, spec in self._owed():
      try:
        self._evaluate(spec, self.estimator.checkpoint_path(step))
      except (errors.CheckpointNotFoundError, errors.CheckpointDamagedError) as error:
        logging.warning("Not evaluated: %s", error)
        self._settle(step, spec)
      else:
        self._unheard.append((step, spec, self.results[spec.name]))

  def tell_of_owed(self, hooks):
    """Tells hooks what came of that; returns whether one of them stops the training."""
    unheard, self._unheard = self._unheard, []
    stop = False
    for step, spec, result in unheard:
      stop = self._tell(hooks, step, spec, result) or stop
    return stop

  def before_save(self, step):
    """Notes which evaluations the checkpoint of a step, which is about to be written, will owe.

    A note that came after it could be missing when the process is killed in between.
    """
    workers = self.estimator.workers
    # All workers must evaluate together, whatever their clocks say.
    self._due = [spec for spec in self._specs if workers.broadcast_from_chief(self._is_due(spec))]
    for spec in self._due:
      self._note(step, spec)

  def when_saved(self, step, hooks):
    """Evaluates the checkpoint of a step that was just written, by the specs whose time it was
    before that; returns whether one of the hooks that hear of it stops the training.
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

  def once(self, step):
    """Evaluates a checkpoint by the specs by which it was not evaluated before; one that is
    gone or damaged is passed over.
    """
    owed = owed_evaluations.read(self.estimator.model_dir)
    for spec in self._specs:
      name = spec.name or ""
      done = retention.evaluated_steps(self.estimator.model_dir, name)
      if step not in done or (step, name) in owed:
        self._note(step, spec)
        try:
          self._evaluate(spec, self.estimator.checkpoint_path(step))
        except (errors.CheckpointNotFoundError, errors.CheckpointDamagedError) as error:
          logging.warning("Not evaluated: %s", error)
        self._settle(step, spec)

  def finish(self):
    """Evaluates the last checkpoint by the specs by which this was not done, and tells the
    exporters that it was the last.
    """
    for spec in self._specs:
      if self._step_of(spec) != self.estimator.latest_step():
        self._evaluate(spec, is_final=True)
      else:
        self._export(spec, is_final=True)
    for step, spec in [*self._kept, *((step, spec) for step, spec, _ in self._unheard)]:
      self._settle(step, spec)

  def tell_exporters(self):
    """Tells them that the last evaluation was the last."""
    for spec in self._specs:
      if spec.name in self.results:
        self._export(spec, is_final=True)

  def _owed(self):
    """List of (step, EvalSpec), the same on all workers. Notes of a checkpoint that was not written
    in the end, or of an evaluation that there is none of any more, are removed.
    """
    specs = {spec.name or "": spec for spec in self._specs}
    found = []
    if self.estimator.device.is_chief:
      # It may have been written, and not put in its place.
      directory.CheckpointDirectory(self.estimator.model_dir).clean()
      steps = self.estimator.checkpoint_steps()
      for step, name in owed_evaluations.read(self.estimator.model_dir):
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
        owed_evaluations.settle(self.estimator.checkpoint_path(step), name)
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
      owed_evaluations.note(self.estimator.checkpoint_path(step), spec.name or "")

  def _settle(self, step, spec):
    if self.estimator.device.is_chief:
      owed_evaluations.settle(self.estimator.checkpoint_path(step), spec.name or "")

  def _tell(self, hooks, step, spec, result):
    """Tells hooks of an evaluation, each of them, whatever the others say; returns whether one
    stops the training.
    """
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


class _TellOfOwed:
  """A hook, the last of a training: it tells the others, which have begun by then, of what was
  evaluated before.
  """

  def __init__(self, evaluations, hooks):
    self._evaluations = evaluations
    self._hooks = hooks

  def begin(self, estimator):
    return self._evaluations.tell_of_owed(self._hooks)

  def __call__(self, step, metrics, estimator):
    return False
