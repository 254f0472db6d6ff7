"""The training loop of XLA devices: many steps are one program, which PJRT runs.

As in `multi_step`, the host hands over the input of several steps in one stack. The variables stay
on the devices, see `xla_variables`. While the devices work on one program, the host puts the stack
of the next one on them; it waits for them once a loop, for the totals.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.inputs import stacks
from trainer.pjrt import program as pjrt_program
from trainer.programs import core_totals, host_call, xla_program
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.reporting import step_times
from trainer.tracing import xla_variables


@dataclasses.dataclass
class Stack(stacks.Stack):
  """A stack that is on XLA devices.

  Attributes:
    on_host: for each core its element, on the host.
  """

  on_host: tuple = ()


class StackReader(stacks.StackReader):
  """Reads stacks and puts them on XLA devices.

  Args:
    dataset: what `stacks.stack` returns.
    put: function of a stack's elements that puts them on the devices.
  """

  def __init__(self, dataset: tf.data.Dataset, put: Callable[[Sequence], Any]) -> None:
    super().__init__(dataset, put)
    self._fetched: list[stacks.Stack | None] = []

  def fetch(self) -> None:
    """Puts the next stack on the devices, where the current one has no step left."""
    if not self._fetched and self._stack is not None and not self._stack.left:
      self._fetched.append(self._read())

  def next_step(self) -> list[tuple]:
    """See stacks.StackReader.next_step; the batches are those on the host."""
    stacked = self.current()
    if stacked is None:
      raise StopIteration
    index, stacked.first = stacked.first, stacked.first + 1
    return [
      tf.nest.map_structure(lambda tensor: tensor[index], element) for element in stacked.on_host
    ]

  def _next(self):
    return self._fetched.pop() if self._fetched else self._read()

  def _read(self):
    real, elements = next(self._iterator, (None, ()))
    return None if real is None else Stack(self._put(elements), int(real), on_host=elements)


class StepsProgram:
  """A program of several training steps, for XLA devices.

  Args:
    program: the step.Program, which is traced as one replica of many.
    plan: of the program, with the batches of all cores.
    host: what calls the function of the host_call. A program ends where a call is due.

  Attributes:
    plan: see Args.
    function: the concrete function of one replica.
    step: what the trace of its step found.

  Raises:
    LowerError: XLA cannot compile the program.
  """

  def __init__(
    self, program: step_lib.Program, plan: plan_lib.Plan, host: host_call.HostCall
  ) -> None:
    variables: Any = program.store.on_xla
    traced = xla_program.trace(program, plan)
    self.plan = plan
    self.function = traced.concrete
    self.step = traced.step
    self._totals: core_totals.CoreTotals = traced.kept
    self._host = host
    self._variables = variables
    self._global_step = program.global_step
    self._is_reading = False
    self._made = xla_program.of(traced, variables, plan.replicas)
    self._executable: Any = None
    self._host_call = tf.function(self._call_newest, autograph=False)

  def read(self, dataset: tf.data.Dataset) -> StackReader:
    """Returns what reads per-core batches in stacks."""
    stacked = stacks.stack(dataset, self.plan.length, self.plan.replicas)
    executable = self.compile()
    return StackReader(stacked, functools.partial(xla_program.put, executable, self._made.inputs))

  def run(self, reader: StackReader, steps: int) -> dict[str, Any]:
    """Runs the loop.

    Args:
      reader: of stacks of the spec that the program was traced for.
      steps: the number of steps.

    Returns:
      What train_loop.TracedLoop.run does.
    """
    with step_times.mark_loop():
      return self._run(reader, steps)

  def failed_in_input(self) -> bool | None:
    """See train_loop.TracedLoop.failed_in_input."""
    return True if self._is_reading else None

  def compile(self) -> Any:
    """Returns the execution.Executable, which is made at the first call."""
    if self._executable is None:
      self._executable = self._variables.compile(self._made.program, self.plan.kind)
    return self._executable

  def _run(self, reader, steps):
    executable, variables = self.compile(), self._variables
    variables.give(self._made.program.variables)
    variables.reset(self._totals.variables()[:2])
    start, done, waited = int(self._global_step.numpy()), 0, 0.0
    while done < steps:
      stack, seconds = self._timed(reader.current)
      waited += seconds
      if stack is None:
        break
      count = min(steps - done, stack.left, self._until_host_call(start + done))
      places = {pjrt_program.FIRST: np.int32(stack.first), pjrt_program.COUNT: np.int32(count)}
      # Before the start: one that fails has taken the memory of the variables too.
      variables.mark_changed()
      executable.run(variables.on_devices, stack.elements, places)
      stack.first += count
      done += count
      if self.step.host_fn is not None:
        self._call_host(start + done)
      self._timed(reader.fetch)  # while the devices work
    results = self._read(done)
    # Of all variables only this one has the training's value on the host after each loop.
    variables.count_on_host(self._global_step, start + done)
    return dict(results, input_seconds=tf.constant(waited, tf.float64))

  def _timed(self, read):
    """Returns what reads input gives, and the seconds that it took."""
    asked_at = time.monotonic()
    self._is_reading = True
    found = read()
    self._is_reading = False
    return found, time.monotonic() - asked_at

  def _until_host_call(self, step):
    if self.step.host_fn is None:
      return tf.int32.max
    return self._host.every - step % self._host.every

  def _call_host(self, step):
    """Calls the host_call with the tensors of the newest step, concatenated over the cores."""
    like = self._totals.host_variables()
    each = self._variables.read_each(tf.nest.flatten(like))
    whole = [tf.constant(np.concatenate(values)) for values in each]
    self._host_call(tf.constant(step, tf.int64), tf.nest.pack_sequence_as(like, whole))

  def _call_newest(self, step, tensors):
    self._host.add(self.step.host_fn, step, tensors)

  def _read(self, done):
    """Reads what the steps of a loop have left on the devices; waits for them."""
    scalars = self.step.scalars
    loss, first, *of_scalars = self._variables.read_each(
      [*self._totals.variables()[:2], *scalars.values()]
    )
    faults = first[first > 0]
    return dict(
      loss=tf.constant(loss.mean() / max(done, 1), tf.float32),
      steps=tf.constant(done, tf.int64),
      non_finite_step=tf.constant(faults.min() if len(faults) else -1, tf.int64),
      scalars={
        tag: tf.constant(xla_variables.mean_of(values))
        for tag, values in zip(scalars, of_scalars, strict=True)
      },
    )
