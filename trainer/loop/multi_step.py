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
from trainer.loop import step as step_lib


class MultiStep:
  """Training loops of several steps in a program.

  Args:
    program: the program.
    call_host: function of a step (int64 scalar) and of the tensors of the host_call, which calls
      its function if the step is due.
    host_call_every: number of steps from one host_call to the next. A program ends where one is
      due.
    xla: whether XLA compiles the program for a CPU or a GPU.

  Attributes:
    is_reading: whether the loop, which may have raised an error, is waiting for input.
  """

  def __init__(
    self,
    program: step_lib.Program,
    call_host: Callable[[tf.Tensor, Any], None],
    host_call_every: int,
    xla: bool = False,
  ) -> None:
    self._program = program
    self._call_host = call_host
    self._host_call_every = host_call_every
    self.is_reading = False
    self._steps = tf.function(program.train_steps, autograph=False, jit_compile=xla or None)
    self._reset = tf.function(program.totals.reset, autograph=False)
    self._results = tf.function(self._read, autograph=False)
    self._host_call = tf.function(self._call_newest, autograph=False)

  def trace(self, element_spec: Any) -> tf.types.experimental.ConcreteFunction:
    """Traces the program for stacks of a spec; returns its concrete function."""
    count = tf.TensorSpec([], tf.int32)
    return self._steps.get_concrete_function(element_spec, count, count)

  def train(self, reader: stacks.StackReader, steps: int) -> dict[str, Any]:
    """Runs the loop.

    Args:
      reader: of stacks of the spec that the program was traced for.
      steps: the number of steps.

    Returns:
      What DeviceLoops.train does.
    """
    start = self._program.global_step.read_value()
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
      if self._program.host_fn is not None:
        self._host_call(start + done)
    return dict(
      self._results(tf.constant(done, tf.int64)), input_seconds=tf.constant(waited, tf.float64)
    )

  def _next(self, reader):
    """Returns the stack to go on with, or None, and the seconds that it took to get it."""
    asked_at = time.monotonic()
    self.is_reading = True
    stack = reader.current()
    self.is_reading = False
    return stack, time.monotonic() - asked_at

  def _until_host_call(self, step):
    if self._program.host_fn is None:
      return tf.int32.max
    return self._host_call_every - step % self._host_call_every

  def _call_newest(self, step):
    self._call_host(step, self._program.totals.host_tensors())

  def _read(self, done):
    """Reads what the steps of a loop have left in the cores' variables."""
    totals = self._program.totals
    mean = totals.loss() / tf.cast(tf.maximum(done, 1), tf.float64)
    return dict(
      loss=tf.cast(mean, tf.float32),
      steps=done,
      non_finite_step=totals.non_finite_step(),
      scalars={tag: variable.read_value() for tag, variable in self._program.scalars.items()},
    )
