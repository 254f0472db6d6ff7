"""The training loop of a TPU, and of XLA: many steps are one program that never waits for the host.

The host hands over the input of several steps in one stack (`trainer.inputs.stacks`) and starts
the program. What the steps add up to stays in variables of the cores (`core_totals`), which the
host reads once a loop. A loop may have several programs, and a program may use a part of a stack:
where it begins and how many steps it does are arguments, so it is compiled once.
"""

import time
from typing import Any

import tensorflow as tf

from trainer.inputs import stacks
from trainer.programs import host_call, traced_program
from trainer.programs import step as step_lib
from trainer.reporting import step_times


class StepsProgram:
  """A program of several training steps that was traced for the stacks of one kind of input.

  Args:
    program: the step.Program.
    traced: the TracedProgram.
    host: what calls the function of the host_call. A program ends where a call is due.

  Attributes:
    plan: what was traced.
    function: its concrete function.
    step: what the trace of its step found.
    totals: what the steps of a loop add up to.
  """

  def __init__(
    self, program: step_lib.Program, traced: traced_program.TracedProgram, host: host_call.HostCall
  ) -> None:
    self.function = traced.concrete
    self.step = traced.step
    self.totals = traced.kept
    self.plan = traced.plan
    self._host = host
    self._global_step = program.global_step
    self._put = stacks.put_on(program.strategy.extended.worker_devices)
    self._is_reading = False
    self._reset = tf.function(self.totals.reset, autograph=False)
    self._results = tf.function(self._read, autograph=False)
    self._host_call = tf.function(self._call_newest, autograph=False)

  def read(self, dataset: tf.data.Dataset) -> stacks.StackReader:
    """Returns what reads per-core batches in stacks."""
    stacked = stacks.stack(dataset, self.plan.length, self.plan.replicas)
    return stacks.StackReader(stacked, self._put)

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
      places = tf.constant(stack.first), tf.constant(count)
      self.function(*tf.nest.flatten(stack.elements), *places)
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
