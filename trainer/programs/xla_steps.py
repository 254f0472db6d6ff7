"""The training loop of XLA devices: one program has many steps, and PJRT runs it.

As in `multi_step`, the host sends the input of several steps in one stack. The variables stay on
the devices, see `xla_variables`. While the devices run one program, the host sends the next stack;
it waits for the devices once per loop, for the totals.

Several hosts run the same programs at the same time. Each reads the batches of its own devices, and
all run as many steps of a stack as the host with the fewest steps.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.inputs import stacks
from trainer.programs import host_call, multi_step, xla_program
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.tracing import xla_variables


@dataclasses.dataclass
class Stack(stacks.Stack):
  """A stack on XLA devices.

  Attributes:
    on_host: each core's element, on the host.
  """

  on_host: tuple = ()

  def batches(self, step: int) -> list[tuple]:
    """See stacks.Stack.batches; the batches are those on the host."""
    return stacks.of_step(self.on_host, step)


class StackReader(stacks.StackReader):
  """Reads stacks and puts them on XLA devices."""

  def __init__(self, *args: Any) -> None:
    super().__init__(*args)
    self._fetched: list[stacks.Stack | None] = []

  def fetch(self) -> None:
    """Puts the next stack on the devices, where the current one has no step left."""
    if not self._fetched and self._stack is not None and not self._stack.left:
      self._fetched.append(self._read())

  def _next(self):
    return self._fetched.pop() if self._fetched else self._read()

  def _read(self):
    own, elements = next(self._iterator, (0, ()))
    # The shortest stack of all hosts counts: a host alone in a step would wait for the others'
    # all-reduce for ever.
    real = min(self._exchange(int(own)))
    return Stack(self._put(elements), real, on_host=elements) if real else None


class StepsProgram(multi_step.StepsLoop):
  """A program of several training steps, for XLA devices.

  Args:
    program: the step.Program, traced as one replica of many.
    plan: the plan, with the batches of all cores.
    host: see multi_step.StepsLoop.

  Raises:
    LowerError: XLA cannot compile the program.
  """

  def __init__(
    self, program: step_lib.Program, plan: plan_lib.Plan, host: host_call.HostCall
  ) -> None:
    traced = xla_program.trace(program, plan)
    super().__init__(plan, traced, host)
    self._program = xla_program.OnDevices(traced, program.store)
    self._variables = self._program.variables
    self._global_step = program.global_step
    self._host_call = tf.function(self._call_newest, autograph=False)

  def read(self, dataset: tf.data.Dataset) -> StackReader:
    """Returns a reader of per-core batches in stacks."""
    stacked = stacks.stack(dataset, self.plan.length, self.plan.replicas)
    self.compile()
    return StackReader(stacked, self._program.put, self._variables.devices.exchange)

  def compile(self) -> Any:
    """Returns the execution.Executable, made at the first call."""
    return self._program.executable

  def _begin(self):
    self._program.give_variables()
    self._variables.reset(self.totals.variables()[:2])
    return int(self._global_step.numpy())

  def _start(self, stack, count):
    # Before the start: a failing start has taken the memory of the variables too.
    self._variables.mark_changed()
    self._program.start(stack, count)

  def _while_running(self, reader):
    self._time_input(reader.fetch)

  def _end(self, start, done):
    # This variable alone has the training's value on the host after each loop. The devices still
    # work, and do not wait for this.
    self._variables.count_on_host(self._global_step, start + done)
    return self._read(done)

  def _call_host(self, step):
    """Calls the host_call with the tensors of the newest step, concatenated over the cores."""
    like = self.totals.host_variables()
    each = self._variables.read_each(tf.nest.flatten(like))
    if not self._variables.devices.is_first:  # the first host writes for all
      return
    whole = [tf.constant(np.concatenate(values)) for values in each]
    self._host_call(tf.constant(step, tf.int64), tf.nest.pack_sequence_as(like, whole))

  def _call_newest(self, step, tensors):
    self._host.add(self.step.host_fn, step, tensors)

  def _read(self, done):
    """Reads the totals of a loop from the devices; waits for them."""
    scalars = self.step.scalars
    loss, first, *of_scalars = self._variables.read_each(
      [*self.totals.variables()[:2], *scalars.values()]
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
