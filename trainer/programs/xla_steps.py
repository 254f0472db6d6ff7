"""The training loop of XLA devices: one program has many steps and never waits for the host.

The host sends the input of several steps in one stack (`trainer.inputs.stacks`) and starts the
program. The variables stay on the devices, see `xla_variables`, and so do the totals of the steps
(`core_results`), which the host reads once per loop. While the devices run one program, the host
sends the next stack. A loop may have several programs, and a program may use a part of a stack: the
first step and the number of steps are arguments, so one compilation suffices.

Several hosts run the same programs at the same time. Each reads the batches of its own devices, and
all run as many steps of a stack as the host with the fewest steps.
"""

import time
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.inputs import stacks
from trainer.programs import host_call, xla_program
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.reporting import step_times
from trainer.tracing import xla_variables


class StepsProgram:
  """A program of several training steps; the other form of a `train_loop.TracedLoop`.

  Args:
    program: the step.Program, traced as one replica of many.
    plan: the plan.
    host: calls the function of the host_call. A program ends where a call is due.

  Attributes:
    plan: the traced plan, perhaps of one step.
    step: the TracedStep of its step.

  Raises:
    LowerError: XLA cannot compile the program.
  """

  def __init__(
    self, program: step_lib.Program, plan: plan_lib.Plan, host: host_call.HostCall
  ) -> None:
    platform = program.store.on_xla.devices.platform
    traced = xla_program.trace_longest(program, plan, platform)
    self.plan = traced.plan
    self.step = traced.step
    self._totals = traced.kept
    self._host = host
    self._program = xla_program.OnDevices(traced, program.store)
    self._variables = self._program.variables
    self._global_step = program.global_step
    self._host_call = tf.function(self._call_newest, autograph=False)
    self._is_reading = False

  def read(self, dataset: tf.data.Dataset) -> stacks.StackReader:
    """Returns a reader of per-core batches in stacks."""
    devices = self._variables.devices
    stacked = stacks.stack(dataset, self.plan.length, len(devices.local))
    _ = self._program.executable  # which compiles it before anyone reads the input
    return stacks.StackReader(stacked, self._program.put, devices.exchange)

  def run(self, reader: stacks.StackReader, steps: int) -> dict[str, Any]:
    """Runs the loop.

    Args:
      reader: of stacks with the program's spec.
      steps: the number of steps.

    Returns:
      As train_loop.TracedLoop.run.
    """
    with step_times.mark_loop():
      return self._run(reader, steps)

  def failed_in_input(self) -> bool | None:
    """See train_loop.TracedLoop.failed_in_input."""
    return True if self._is_reading else None

  def _run(self, reader, steps):
    self._program.give_variables()
    self._variables.reset(self._totals.sums())
    start, done, waited = int(self._global_step.numpy()), 0, 0.0
    while done < steps:
      stack, seconds = self._time_input(reader.current)
      waited += seconds
      if stack is None:
        break
      # A stack may serve two loops, and a program must end where a host_call is due. The first step
      # and the count are arguments of the program, so neither needs another trace.
      count = min(steps - done, stack.left, self._until_host_call(start + done))
      # Before the start: a failing start has taken the memory of the variables too.
      self._variables.mark_changed()
      self._program.start(stack, count)
      stack.first += count
      done += count
      if self.step.host_fn is not None:
        self._call_host(start + done)
      # The devices work on the steps just started: use the time for the next stack.
      self._time_input(reader.fetch)
    # This variable alone has the training's value on the host after each loop. The devices still
    # work, and do not wait for this.
    self._variables.count_on_host(self._global_step, start + done)
    return dict(self._read(done), input_seconds=tf.constant(waited, tf.float64))

  def _time_input(self, read):
    """Returns the result of a function that reads input, and its seconds."""
    asked_at = time.monotonic()
    # No `finally`: if read() raises, this stays True, and failed_in_input() blames the input.
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
    if not self._variables.devices.is_first:  # the first host writes for all
      return
    whole = [tf.constant(np.concatenate(values)) for values in each]
    self._host_call(tf.constant(step, tf.int64), tf.nest.pack_sequence_as(like, whole))

  def _call_newest(self, step, tensors):
    self._host.add(self.step.host_fn, step, tensors)

  def _read(self, done):
    """Reads the totals of a loop from the devices; waits for them."""
    scalars = self.step.scalars
    loss, first, *of_scalars = self._variables.read_each([*self._totals.sums(), *scalars.values()])
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
