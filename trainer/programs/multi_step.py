"""The training loop with many steps in one program, which never waits for the host.

The host sends the input of several steps in one stack (`trainer.inputs.stacks`) and starts the
program. The totals of the steps stay in variables of the cores (`core_totals`), and the host reads
them once per loop. A loop may have several programs, and a program may use a part of a stack: the
first step and the number of steps are arguments, so one compilation suffices.
"""

import time
from typing import Any

import tensorflow as tf

from trainer.inputs import stacks
from trainer.programs import host_call, traced_program
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.reporting import step_times


class StepsLoop:
  """The Python loop over programs of several training steps, for any runtime.

  A subclass begins a loop, starts a program, and reads the totals.

  Args:
    plan: the plan of the program.
    traced: the TracedProgram.
    host: calls the function of the host_call. A program ends where a call is due.

  Attributes:
    plan: see Args.
    function: the traced concrete function.
    step: the TracedStep of its step.
    totals: the totals of a loop.
  """

  def __init__(
    self, plan: plan_lib.Plan, traced: traced_program.TracedProgram, host: host_call.HostCall
  ) -> None:
    self.plan = plan
    self.function = traced.concrete
    self.step = traced.step
    self.totals = traced.kept
    self._host = host
    self._is_reading = False

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
    start, done, waited = self._begin(), 0, 0.0
    while done < steps:
      stack, seconds = self._time_input(reader.current)
      waited += seconds
      if stack is None:
        break
      # A stack may serve two loops, and a program must end where a host_call is due. The first step
      # and the count are arguments of the program, so neither needs another trace.
      count = min(steps - done, stack.left, self._until_host_call(int(start) + done))
      self._start(stack, count)
      stack.first += count
      done += count
      if self.step.host_fn is not None:
        self._call_host(start + done)
      # The devices work on the steps just started: use the time for the next stack.
      self._while_running(reader)
    return dict(self._end(start, done), input_seconds=tf.constant(waited, tf.float64))

  def _begin(self):
    """Sets the totals to zero; returns the global step."""
    raise NotImplementedError

  def _start(self, stack, count):
    """Starts on the next steps of a stack."""
    raise NotImplementedError

  def _call_host(self, step):
    """Calls the function of the host_call for the newest step."""
    raise NotImplementedError

  def _while_running(self, reader):
    """Does the host's work while the devices run; a subclass may override it."""

  def _end(self, start, done):
    """Returns the totals of a loop; waits for its steps."""
    raise NotImplementedError

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


class StepsProgram(StepsLoop):
  """A program of several training steps that XLA compiles for one CPU or GPU (`--xla`)."""

  def __init__(
    self, program: step_lib.Program, traced: traced_program.TracedProgram, host: host_call.HostCall
  ) -> None:
    super().__init__(traced.plan, traced, host)
    self._global_step = program.global_step
    self._put = stacks.put_on(program.strategy.extended.worker_devices)
    self._reset = tf.function(self.totals.reset, autograph=False)
    self._results = tf.function(self._read, autograph=False)
    self._host_call = tf.function(self._call_newest, autograph=False)

  def read(self, dataset: tf.data.Dataset) -> stacks.StackReader:
    """Returns a reader of per-core batches in stacks."""
    stacked = stacks.stack(dataset, self.plan.length, self.plan.replicas)
    return stacks.StackReader(stacked, self._put)

  def _begin(self):
    start = self._global_step.read_value()
    self._reset()
    return start

  def _start(self, stack, count):
    places = tf.constant(stack.first), tf.constant(count)
    self.function(*tf.nest.flatten(stack.elements), *places)

  def _call_host(self, step):
    self._host_call(step)

  def _end(self, start, done):
    del start
    return self._results(tf.constant(done, tf.int64))

  def _call_newest(self, step):
    self._host.add(self.step.host_fn, step, self.totals.host_tensors())

  def _read(self, done):
    """Reads the totals of a loop from the cores' variables."""
    # A loop whose input ended at once has no step: avoid 0 / 0.
    mean = self.totals.loss() / tf.cast(tf.maximum(done, 1), tf.float64)
    return dict(
      loss=tf.cast(mean, tf.float32),
      steps=done,
      non_finite_step=self.totals.non_finite_step(),
      scalars={tag: variable.read_value() for tag, variable in self.step.scalars.items()},
    )
