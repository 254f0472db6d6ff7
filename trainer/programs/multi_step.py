"""The training loop of a TPU, and of XLA: many steps are one program that never waits for the host.

The host hands over the input of several steps in one stack (`trainer.inputs.stacks`) and starts
the program. What the steps add up to stays in variables of the cores (`core_totals`), which the
host reads once a loop. A loop may have several programs, and a program may use a part of a stack:
where it begins and how many steps it does are arguments, so it is compiled once.
"""

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.inputs import stacks
from trainer.programs import core_totals, host_call, tpu_only
from trainer.programs import step as step_lib
from trainer.reporting import step_times


class TracedProgram:
  """A program of several training steps that was traced for the stacks of one kind of input.

  Args:
    program: the step.Program.
    host: what calls the function of the host_call. A program ends where a call is due.
    element_spec: of a stack's elements, see `stacks.spec_of`.
    xla: whether XLA compiles the program for a CPU or a GPU.

  Attributes:
    function: the concrete function of (elements, first, count).
    step: what the trace of its step found.
    totals: what the steps of a loop add up to.
  """

  def __init__(
    self,
    program: step_lib.Program,
    host: host_call.HostCall,
    element_spec: tuple,
    xla: bool = False,
  ) -> None:
    self._global_step = program.global_step
    self._host = host
    self._is_reading = False
    found: list[tuple[core_totals.CoreTotals, step_lib.TracedStep]] = []

    def train_steps(elements, first, count):
      found.append(program.train_steps(elements, first, count))

    count = tf.TensorSpec([], tf.int32)
    self._steps = tf.function(train_steps, autograph=False, jit_compile=xla or None)
    self.function = self._steps.get_concrete_function(element_spec, count, count)
    tpu_only.check(self.function, program.calls.model_name)
    self.totals, self.step = found[-1]
    self._reset = tf.function(self.totals.reset, autograph=False)
    self._results = tf.function(self._read, autograph=False)
    self._host_call = tf.function(self._call_newest, autograph=False)

  def run(self, reader: stacks.StackReader, steps: int) -> dict[str, Any]:
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

  def _run(self, reader, steps):
    start = self._global_step.read_value()
    self._reset()
    done, waited = 0, 0.0
    while done < steps:
      stack, seconds = self._next(reader)
      waited += seconds
      if stack is None:
        break
      count = min(steps - done, stack.left, self._until_host_call(int(start) + done))
      self._steps(stack.elements, tf.constant(stack.first), tf.constant(count))
      stack.first += count
      done += count
      if self.step.host_fn is not None:
        self._host_call(start + done)
    return dict(
      self._results(tf.constant(done, tf.int64)), input_seconds=tf.constant(waited, tf.float64)
    )

  def _next(self, reader):
    """Returns the stack to go on with, or None, and the seconds that it took to get it."""
    asked_at = time.monotonic()
    self._is_reading = True
    stack = reader.current()
    self._is_reading = False
    return stack, time.monotonic() - asked_at

  def _until_host_call(self, step):
    if self.step.host_fn is None:
      return tf.int32.max
    return self._host.every - step % self._host.every

  def _call_newest(self, step):
    self._host.add(self.step.host_fn, step, self.totals.host_tensors())

  def _read(self, done):
    """Reads what the steps of a loop have left in the cores' variables."""
    mean = self.totals.loss() / tf.cast(tf.maximum(done, 1), tf.float64)
    return dict(
      loss=tf.cast(mean, tf.float32),
      steps=done,
      non_finite_step=self.totals.non_finite_step(),
      scalars={tag: variable.read_value() for tag, variable in self.step.scalars.items()},
    )


class Steps:
  """The programs of several training steps of a Program.

  Args:
    program: the step.Program.
    replicas: number of batches in a step: the replicas of this process.
    host: what calls the function of the host_call.
    xla: see TracedProgram.
  """

  def __init__(
    self, program: step_lib.Program, replicas: int, host: host_call.HostCall, xla: bool = False
  ) -> None:
    self._program = program
    self._replicas = replicas
    self._host = host
    self._xla = xla
    self._traces: dict[Any, TracedProgram] = {}

  def trace(self, element_spec: tuple) -> TracedProgram:
    """Traces the program, once for each kind of input.

    Args:
      element_spec: of a stack's elements, see `stacks.spec_of`.
    """
    key = tf.data.IteratorSpec(element_spec)
    if key not in self._traces:
      self._traces[key] = TracedProgram(self._program, self._host, element_spec, self._xla)
    return self._traces[key]

  def reader(self, dataset: tf.data.Dataset, steps: int) -> stacks.StackReader:
    """Makes the input of a training loop that has `steps` steps in a program.

    Args:
      dataset: per-core batches.
      steps: the most steps in a program.
    """
    return stacks.StackReader(stacks.stack(dataset, steps, self._replicas), self._devices())

  def hosts_reader(
    self,
    dataset_of: Callable[[tf.distribute.InputContext], tf.data.Dataset],
    steps_of: Callable[[Any], int],
  ) -> stacks.HostsStackReader:
    """Makes the input of a training loop whose cores belong to several hosts.

    Args:
      dataset_of: function of a host's InputContext that returns its per-core batches.
      steps_of: function of their element_spec that returns the most steps in a program.
    """

    def stacks_of(context):
      dataset = dataset_of(context)
      cores = self._replicas // context.num_input_pipelines
      return stacks.stack_for_cores(dataset, steps_of(dataset.element_spec), cores)

    return stacks.HostsStackReader(self._program.strategy, stacks_of, self._devices())

  def _devices(self):
    return self._program.strategy.extended.worker_devices
