"""Trains many steps in one call of the device.

A training loop is a `tf.function` that takes an iterator and a number of steps. Python pays its
overhead once a loop, not once a step. `outer_loop` decides how many steps a loop has. `multi_step`
has the loops of TPUs and of XLA, in which the steps are one program.
"""

import dataclasses
import time
from typing import Any

import tensorflow as tf

from trainer.internals import tensorflow_internals
from trainer.programs import executor, host_call, tpu_only
from trainer.programs import step as step_lib
from trainer.reporting import step_times


@dataclasses.dataclass(frozen=True)
class TracedLoop:
  """A training loop that was traced for one kind of input.

  Attributes:
    function: the concrete function of (iterator, steps).
    step: what the trace of its step found.
    is_single_threaded: whether it runs in one thread, see `executor`.
    waiting: variable, true while the loop waits for input; None where nobody can tell.
  """

  function: tf.types.experimental.ConcreteFunction
  step: step_lib.TracedStep
  is_single_threaded: bool
  waiting: tf.Variable | None

  def run(self, iterator: tf.data.Iterator, steps: int) -> dict[str, Any]:
    """Runs the loop.

    Args:
      iterator: over per-core batches; a step takes one for each replica.
      steps: the number of steps.

    Returns:
      A dict of scalar tensors:

      - "loss": float32, the mean over the steps.
      - "steps": int64, the number of steps done; fewer than asked for if the iterator ended.
      - "non_finite_step": int64, the first global step whose loss was not finite, or -1.
      - "input_seconds": float64, the time that the device waited for batches.
      - "scalars": dict of tag → float32, the values that the last step passed to tf.summary.scalar.
    """
    with executor.single_thread(self.is_single_threaded), step_times.mark_loop():
      return self.function(iterator, tf.constant(steps, tf.int64))

  def failed_in_input(self) -> bool | None:
    """Returns whether the loop, which has raised an error, was waiting for input.

    Returns:
      None if the loop ran in several threads: then only the error itself can tell.
    """
    return bool(self.waiting) if self.is_single_threaded else None


class TrainLoop:
  """The training loops of a Program.

  Args:
    program: the program.
    replicas: number of batches in a step: the replicas of this process.
    host: what calls the function of the host_call.
    on_one_cpu: whether the device is a CPU as one core.
  """

  def __init__(
    self,
    program: step_lib.Program,
    replicas: int,
    host: host_call.HostCall,
    on_one_cpu: bool = False,
  ) -> None:
    self._program = program
    self._replicas = replicas
    self._host = host
    self._on_one_cpu = on_one_cpu
    with tf.device("/cpu:0"):
      self._waiting = tf.Variable(False, trainable=False) if on_one_cpu else None
    self._traces: dict[Any, TracedLoop] = {}

  def trace(self, element_spec: Any, endless: bool) -> TracedLoop:
    """Traces the loop, once for each kind of input.

    Args:
      element_spec: of the iterator over per-core batches.
      endless: whether the iterator never ends, so that the loop need not check for its end.
    """
    key = tf.data.IteratorSpec(element_spec), endless
    if key not in self._traces:
      self._traces[key] = self._trace(*key)
    return self._traces[key]

  def _trace(self, iterator_spec, endless):
    found = []

    def train(iterator, steps):
      results, *rest = self._loop(iterator, steps, endless)
      found.append(rest)
      return results

    function = tf.function(train, autograph=False)
    traced = function.get_concrete_function(iterator_spec, tf.TensorSpec([], tf.int64))
    tpu_only.check(traced, self._program.calls.model_name)
    return TracedLoop(traced, *found[-1], self._waiting)

  def _loop(self, iterator, steps, endless):
    """Adds the loop to the function that is being traced.

    Returns:
      (results, traced, is_single_threaded): see TracedLoop.
    """
    program, found = self._program, []
    start = program.global_step.read_value()

    def step(batches, state, asked_at):
      done, _, loss_sum, non_finite, waited, free_at = state
      # The order is important for the times. 1. All batches are there. 2. The clock is read.
      # 3. The replicas start. Without the second dependency, eight replicas would keep the CPU busy
      # before the clock is read, and their work would count as waiting for input.
      with tf.control_dependencies(tf.nest.flatten(batches)):
        ready_at = _now()
      with tf.control_dependencies([ready_at]):
        batches = tf.nest.map_structure(tf.identity, batches)
      with tensorflow_internals.AutomaticControlDependencies() as everything:
        loss, host_tensors, traced = program.train(batches)
        # The loss is computed long before the step ends. This makes it wait for the whole step, its
        # assignments too, so that `free_at` below is the end of the step.
        loss = everything.mark_as_return(loss)
      found.append(traced)
      done += 1
      # After the step, before its number is counted: the host_call gets the step that it is for.
      self._host.add(traced.host_fn, start + done, host_tensors)
      program.global_step.assign(start + done)
      non_finite = tf.where((non_finite < 0) & ~tf.math.is_finite(loss), start + done, non_finite)
      # From when the device was free, and had asked, until the batches came.
      waited += tf.maximum(ready_at - tf.maximum(free_at, asked_at), 0)
      with tf.control_dependencies([loss]):
        free_at = _now()
      # Sums in float64: a loop may have many thousand steps.
      return done, True, loss_sum + tf.cast(loss, tf.float64), non_finite, waited, free_at

    def body(*state):
      asked_at = _now()
      if endless:
        return step(self._next_batches(iterator), state, asked_at)
      # A step needs a batch for every replica. The batches left at the end of the data are dropped.
      optionals = [iterator.get_next_as_optional() for _ in range(self._replicas)]
      more = tf.reduce_all([optional.has_value() for optional in optionals])
      return tf.cond(
        more,
        lambda: step([optional.get_value() for optional in optionals], state, asked_at),
        lambda: (state[0], False, *state[2:]),
      )

    zero = tf.constant(0, tf.float64)
    initial = (
      tf.constant(0, tf.int64),
      tf.constant(True),
      zero,
      tf.constant(-1, tf.int64),
      zero,
      _now(),
    )
    done, _, loss_sum, non_finite, waited, _ = tf.while_loop(
      lambda done, more, *_: more & (done < steps), body, initial
    )
    results = dict(
      loss=tf.cast(loss_sum / tf.cast(tf.maximum(done, 1), tf.float64), tf.float32),
      steps=done,
      non_finite_step=non_finite,
      input_seconds=waited,
      scalars={tag: variable.read_value() for tag, variable in found[-1].scalars.items()},
    )
    is_single_threaded = self._on_one_cpu and executor.mark_for_single_thread(done.op)
    return results, found[-1], is_single_threaded

  def _next_batches(self, iterator):
    if self._waiting is None:
      return [next(iterator) for _ in range(self._replicas)]
    # assign(True) → next → assign(False) → the step, in this order: see failed_in_input.
    with tf.control_dependencies([self._waiting.assign(True)]):
      batch = next(iterator)
    with (
      tf.control_dependencies(tf.nest.flatten(batch)),
      tf.control_dependencies([self._waiting.assign(False)]),
    ):
      return [tf.nest.map_structure(tf.identity, batch)]


def _now():
  """Seconds by the host's clock, as a float64 scalar, when the operation runs."""
  # TensorFlow's own refuses to run where all operations shall be deterministic.
  if tensorflow_internals.is_op_determinism_enabled():
    return tf.ensure_shape(tf.numpy_function(time.time, [], tf.float64), [])
  return tf.timestamp()
