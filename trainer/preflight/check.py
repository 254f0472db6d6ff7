"""Takes steps through the stages contract → trace → lower → compile → fit.

The check reports each stage with its time when it passes. A step that fails at a stage does not
reach the next one; the other steps go on.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable

import tensorflow as tf

from trainer import errors
from trainer.cli import command, formatting
from trainer.pjrt import program as pjrt_program
from trainer.preflight import bindings, compiler, estimates, hlo, memory, search
from trainer.preflight import steps as steps_lib
from trainer.preflight import topology as topology_lib
from trainer.programs import graph_operations
from trainer.settings.kinds import Kind

STAGES = ("contract", "trace", "lower", "compile", "fit")


@dataclasses.dataclass(frozen=True)
class DeviceLoop:
  """The host's part around a program.

  Attributes:
    steps_per_program: the steps, or groups of an evaluation or a prediction, that the program does
      before the host acts.
    stacked_input_bytes: of the program's input, for one core.
    result_bytes: bytes that the host reads from one core after such a program; for a training,
      after a device loop, however many programs it has.
  """

  steps_per_program: int
  stacked_input_bytes: int
  result_bytes: int


@dataclasses.dataclass
class StepReport:
  """The results for one step on one topology.

  Figures are for one core. Figures of stages that the step did not reach are None or empty.

  Attributes:
    kind: "train", "eval" or "predict".
    topology: to compile the step for.
    per_core: the per-core batch.
    seconds: stage → seconds, of the stages that passed.
    failed: the stage that failed, or "".
    problem: why it failed.
    warnings: sentences about gaps of the report.
    loop: the device loop around the program.
    compiled: the compiler's figures, if the step fits.
    out_of_memory: the compiler's figures, if it does not fit.
    all_reduces: the all-reduces of the compiled program.
    trainable_bytes: bytes of the trainable variables; their gradients have as many.
    buffers: the largest buffers, the largest first.
    time: the estimated time of a step.
    found: the result of the search for a batch that fits.
  """

  kind: Kind
  topology: topology_lib.Topology
  per_core: int | None = None
  seconds: dict = dataclasses.field(default_factory=dict)
  failed: str = ""
  problem: str = ""
  warnings: list = dataclasses.field(default_factory=list)
  loop: DeviceLoop | None = None
  compiled: compiler.Compiled | None = None
  out_of_memory: compiler.OutOfMemory | None = None
  all_reduces: hlo.AllReduces | None = None
  trainable_bytes: int = 0
  buffers: list = dataclasses.field(default_factory=list)
  time: estimates.StepTime | None = None
  found: search.BatchSearch | None = None

  @property
  def listing(self) -> memory.Listing:
    """The compiler's output about the program; empty if the step did not compile."""
    result = self.compiled or self.out_of_memory
    return result.listing if result else memory.Listing()


@dataclasses.dataclass(frozen=True)
class Check:
  """Takes the steps of an experiment through the stages.

  Attributes:
    experiment: the experiment to compile.
    timeout_seconds: the limit for each compilation.
    search_batch: when to search for the largest batch that fits: "never", "auto" (if the step does
      not fit) or "always".
    search_compiles: the most compilations in a search.
    kept: a folder that gets the compiled programs of the steps, for runs to find; "" for none.
    tell: called with (StepReport, stage, seconds) after each stage; seconds is None if the stage
      failed. A search calls it with (StepReport, "search", batch).
  """

  experiment: bindings.Experiment
  timeout_seconds: float = 900.0
  search_batch: str = "auto"
  search_compiles: int = 12
  kept: str = ""
  tell: Callable = lambda report, stage, value: None
  # By kind of device, number of replicas and kind of step: a program depends on nothing else of the
  # topology.
  _steps: dict[tuple, steps_lib.Steps] = dataclasses.field(default_factory=dict, init=False)
  _lowered: dict[tuple, "_Lowered"] = dataclasses.field(default_factory=dict, init=False)

  def check_step(self, kind: Kind, topology: topology_lib.Topology) -> StepReport:
    """Takes a step through the stages, as far as they pass.

    Args:
      kind: "train", "eval" or "predict".
      topology: to compile for.

    Raises:
      SettingError: the experiment has no such step.
    """
    report = StepReport(kind, topology)
    if kind not in self.experiment.input_fns:
      raise errors.SettingError(
        f"--steps: {kind} needs an input_fn: bind run.{kind}_input_fn in a gin file."
      )
    report.per_core = self.experiment.per_core(kind, topology.replicas)
    with contextlib.suppress(_Stopped):
      lowered = self._lower(report)
      report.trainable_bytes = lowered.trainable_bytes
      report.loop = lowered.loop
      result = self._stage(
        report,
        "compile",
        lambda: compiler.compile_program(lowered.source, topology, self.timeout_seconds, self.kept),
      )
      self._judge(report, lowered, result)
    return report

  def _lower(self, report):
    """Lowers a step, at most once for each number of replicas."""
    topology = report.topology
    key = topology.kind, topology.replicas, report.kind
    if key not in self._lowered:
      steps = self._steps_of(topology)
      element, groups = self._stage(report, "contract", lambda: steps.call_input_fn(report.kind))
      traced = self._stage(report, "trace", lambda: steps.trace(report.kind, element, groups))
      source = self._stage(report, "lower", lambda: steps.lower(traced))
      variables = steps.program.store.variables.values()
      trainable = sum(v.shape.num_elements() * v.dtype.size for v in variables if v.trainable)
      self._lowered[key] = _Lowered(
        source,
        element,
        traced.concrete.graph,
        trainable,
        _loop(traced, self.experiment.config),
        dict(report.seconds),
      )
    else:
      report.seconds.update(self._lowered[key].seconds)
    return self._lowered[key]

  def _steps_of(self, topology):
    key = topology.kind, topology.replicas
    if key not in self._steps:
      per_core = self._per_core(topology.replicas)
      self._steps[key] = steps_lib.Steps(self.experiment, *key, per_core)
    return self._steps[key]

  def _per_core(self, replicas):
    return {kind: self.experiment.per_core(kind, replicas) for kind in self.experiment.kinds()}

  def _stage(self, report, stage, work):
    start = time.monotonic()
    try:
      result = work()
    except errors.OctetError as error:
      report.failed, report.problem = stage, command.message(error)
      self.tell(report, stage, None)
      raise _Stopped from error
    report.seconds[stage] = time.monotonic() - start
    self.tell(report, stage, report.seconds[stage])
    return result

  def _judge(self, report, lowered, result):
    """Completes the report from the compiler's result, and searches for a batch if asked to."""
    compiles = isinstance(result, compiler.Compiled)
    report.compiled, report.out_of_memory = (result, None) if compiles else (None, result)
    if report.topology.kind != "tpu":  # Its memory and time say nothing about a TPU's.
      return
    limit, next_input = report.topology.memory_bytes, lowered.loop.stacked_input_bytes
    fits, needed = _fit(result, next_input, limit)
    report.all_reduces = hlo.all_reduces(result.listing.hlo)
    report.buffers = memory.largest(result.listing)
    if self.search_batch == "always" or (self.search_batch == "auto" and not fits):
      try:
        report.found = self._search(report, lowered, needed, limit)
      # The error is about another batch size. The results for this one stay valid.
      except errors.OctetError as error:
        report.warnings = [
          *report.warnings,
          f"the search for a batch that fits ended early: {command.message(error)}",
        ]
    if fits:
      report.time = estimates.step_time(result, report.topology, report.all_reduces.bytes)
      report.seconds["fit"] = 0.0
      self.tell(report, "fit", 0.0)
    else:
      report.failed = "fit"
      report.problem = _too_large(report, lowered)
      self.tell(report, "fit", None)

  def _search(self, report, lowered, needed, limit):
    def compile_at(batch):
      self.tell(report, "search", batch)
      topology = report.topology
      steps = steps_lib.Steps(
        self.experiment, topology.kind, topology.replicas, {report.kind: batch}
      )
      traced = steps.trace(report.kind, steps_lib.with_batch(lowered.element, batch))
      result = compiler.compile_program(steps.lower(traced), topology, self.timeout_seconds)
      return _fit(result, _loop(traced, self.experiment.config).stacked_input_bytes, limit)

    return search.largest_batch(compile_at, report.per_core, needed, limit, self.search_compiles)


@dataclasses.dataclass(frozen=True)
class _Lowered:
  source: pjrt_program.Source
  element: object
  graph: object
  trainable_bytes: int
  loop: DeviceLoop
  seconds: dict


class _Stopped(Exception):
  """A stage failed. The report has the stage and the reason."""


def _loop(traced, config):
  """Returns the DeviceLoop of a TracedProgram."""
  plan, steps = traced.plan, traced.plan.length
  # The variables of the device that the host reads after the program.
  kept = tf.nest.flatten([traced.kept.variables(), traced.step.scalars])
  if plan.kind == Kind.TRAIN and traced.step.host_fn is not None:
    steps = min(steps, config.tpu_config.host_call_every_n_steps)
  return DeviceLoop(
    steps,
    plan.length * plan.step_bytes,
    sum(variable.shape.num_elements() * variable.dtype.size for variable in kept),
  )


def _fit(result, next_input, limit):
  """Returns whether a program fits beside its next input, and the bytes that both need."""
  if isinstance(result, compiler.OutOfMemory):
    return False, max(result.needed_bytes + next_input, limit + 1)
  needed = result.listing.allocated_bytes + next_input
  # The compiler rounds its figures, so they may contradict its verdict. The verdict counts, and
  # the figures only for an input that it does not know of.
  fits = not next_input or needed <= limit
  return fits, min(needed, limit) if fits else max(needed, limit + 1)


def _too_large(report, lowered):
  lines = [_shortage(report, lowered.loop.stacked_input_bytes)]
  for buffer in report.buffers[:3]:
    place = _place(lowered.graph, buffer.op)
    lines.append(f"  {buffer.line()}{f' ({place})' if place else ''}")
  if report.found is not None:
    size = f"run.{'eval' if report.kind == 'predict' else report.kind}_per_core_batch_size"
    lines.append(
      f"The largest per-core batch that compiles and fits is {report.found.largest} ({size} = "
      f"{report.found.largest})."
      if report.found.largest
      else "None of these per-core batches fits."
    )
  return "\n".join(lines)


def _shortage(report, next_input):
  """Says how much memory the device has and how much the step needs."""
  size, oom = formatting.memory_size, report.out_of_memory
  if oom is None:
    return (
      f"Out of memory: the program needs {size(report.compiled.listing.allocated_bytes)}, and the "
      f"input of the next one, {size(next_input)}, arrives while it works; the device has "
      f"{size(report.topology.memory_bytes)}: set a smaller TPUConfig.stacked_input_bytes."
    )
  over = oom.needed_bytes - oom.available_bytes
  return (
    f"Out of memory: {oom.needed_bytes / 2**30:.2f} GiB needed, {oom.available_bytes / 2**30:.2f} "
    f"GiB available, {over / 2**30:.2f} GiB too much."
  )


def _place(graph, op_name):
  """Returns "file:line" of the user's program that made an op of the compiled program; or ""."""
  # The compiler appends parts to the names of TensorFlow's ops, and puts the names of the loops
  # around an op before them: so the longest part that is a known name wins.
  made: dict = {}
  for operation in graph_operations.walk(graph):
    made.setdefault(operation.name, operation)
  parts = op_name.split("/")
  names = [
    "/".join(parts[first : first + count])
    for count in range(len(parts), 0, -1)
    for first in range(len(parts) - count + 1)
  ]
  found = next((made[name] for name in names if name in made), None)
  return graph_operations.place_of(found) if found is not None else ""
