"""Trains many steps in one call of a device that TensorFlow drives.

A training loop is a `tf.function` that takes an iterator and a number of steps. Python pays its
overhead once a loop, not once a step. `outer_loop` decides how many steps a loop has.
"""

import dataclasses
import functools
import time
from typing import Any

import tensorflow as tf

from trainer.internals import tensorflow_internals
from trainer.programs import executor, host_call
from trainer.programs import step as step_lib
from trainer.reporting import step_times
from trainer.settings.kinds import Kind
from trainer.tracing import step_input


@dataclasses.dataclass(frozen=True)
class TracedLoop:
  """A traced training loop for one kind of input.

  Attributes:
    function: the concrete function of (iterator, steps).
    step: the TracedStep of its step.
    is_single_threaded: whether it runs in one thread, see `executor`.
    waiting: variable, true while the loop waits for input; None if this is unknown.
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

  def read(self, dataset: tf.data.Dataset) -> tf.data.Iterator:
    """Returns the iterator from which `run` takes the batches of a dataset."""
    iterator = iter(dataset)
    step_input.read_from(self.function.graph, iterator)
    return iterator

  def failed_in_input(self) -> bool | None:
    """Returns whether the loop was waiting for input when it raised an error.

    Returns:
      None if the loop ran in several threads: then only the error itself can tell.
    """
    return bool(self.waiting) if self.is_single_threaded else None


@dataclasses.dataclass(frozen=True)
class TrainLoop:
  """Makes the training loops of a Program.

  Attributes:
    program: the program.
    replicas: the batches of a step.
    is_one_cpu: whether the device is a CPU as one core.
    host: what calls the function of the host_call.
  """

  program: step_lib.Program
  replicas: int
  is_one_cpu: bool
  host: host_call.HostCall

  def trace(self, element_spec: Any, is_endless: bool) -> TracedLoop:
    """Traces a loop.

    Args:
      element_spec: of the iterator over per-core batches.
      is_endless: whether the iterator never ends, so that the loop need not check for its end.
    """
    with tf.device("/cpu:0"):
      waiting = tf.Variable(False, trainable=False) if self.is_one_cpu else None
    found: list[Any] = []

    def train(iterator, steps):
      next_step = self._step_if_more
      if is_endless:
        next_step = functools.partial(self._step_of_endless, waiting)
      results, *rest = self._loop(functools.partial(next_step, iterator), steps)
      found.append(rest)
      return results

    function = tf.function(train, autograph=False).get_concrete_function(
      tf.data.IteratorSpec(element_spec), tf.TensorSpec([], tf.int64)
    )
    traced, is_single_threaded = found[-1]
    return TracedLoop(function, traced, is_single_threaded, waiting)

  def _loop(self, next_step, steps):
    """Adds the loop to the function in trace.

    Args:
      next_step: function of a step and the loop's state that adds the step; returns the next state.
      steps: the number of steps.

    Returns:
      (results, traced, is_single_threaded): see TracedLoop.
    """
    found: list[step_lib.TracedStep] = []
    step = functools.partial(self._step, self.program.global_step.read_value(), found)
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
      lambda done, more, *_: more & (done < steps), lambda *state: next_step(step, state), initial
    )
    results = dict(
      loss=tf.cast(loss_sum / tf.cast(tf.maximum(done, 1), tf.float64), tf.float32),
      steps=done,
      non_finite_step=non_finite,
      input_seconds=waited,
      scalars={tag: variable.read_value() for tag, variable in found[-1].scalars.items()},
    )
    is_single_threaded = self.is_one_cpu and executor.mark_for_single_thread(done.op)
    return results, found[-1], is_single_threaded

  def _step(self, start, found, batches, state, asked_at):
    """Adds a step to the loop's body; returns the loop's next state."""
    done, _, loss_sum, non_finite, waited, free_at = state
    # The order decides the times. 1. All batches have arrived. 2. Read the clock. The replicas
    # start. Without the second dependency, eight replicas would keep the CPU busy before the
    # reading, and their work would count as waiting for input.
    with tf.control_dependencies(tf.nest.flatten(batches)):
      ready_at = _now()
    with tf.control_dependencies([ready_at]):
      batches = tf.nest.map_structure(tf.identity, batches)
    with tensorflow_internals.AutomaticControlDependencies() as everything:
      (loss, host_tensors), traced = self.program.run_step(Kind.TRAIN, batches)
      # The loss exists long before the step ends. This makes it wait for the whole step and its
      # assignments, so that `free_at` below is the end of the step.
      loss = everything.mark_as_return(loss)
    found.append(traced)
    done += 1
    # After the step, before the count: the host_call gets the number of its own step.
    self.host.add(traced.host_fn, start + done, host_tensors)
    self.program.global_step.assign(start + done)
    non_finite = tf.where((non_finite < 0) & ~tf.math.is_finite(loss), start + done, non_finite)
    # From when the device was free, and had asked, until the batches came.
    waited += tf.maximum(ready_at - tf.maximum(free_at, asked_at), 0)
    with tf.control_dependencies([loss]):
      free_at = _now()
    # Sums in float64: a loop may have many thousand steps.
    return done, True, loss_sum + tf.cast(loss, tf.float64), non_finite, waited, free_at

  def _step_if_more(self, iterator, step, state):
    # A step needs a batch for every replica. It drops the last batches if there are too few.
    asked_at = _now()
    with tf.control_dependencies([asked_at]):
      optionals = [iterator.get_next_as_optional() for _ in range(self.replicas)]
    more = tf.reduce_all([optional.has_value() for optional in optionals])
    return tf.cond(
      more,
      lambda: step([optional.get_value() for optional in optionals], state, asked_at),
      lambda: (state[0], False, *state[2:]),
    )

  def _step_of_endless(self, waiting, iterator, step, state):
    asked_at = _now()
    # The executor may read the clock after the batch came, unless an edge forbids it.
    with tf.control_dependencies([asked_at]):
      if waiting is None:
        batches = [next(iterator) for _ in range(self.replicas)]
      else:
        batches = [_next_marked(waiting, iterator)]
    return step(batches, state, asked_at)


def _next_marked(waiting, iterator):
  """Returns the next batch. `waiting` is true until it came: see failed_in_input."""
  with tf.control_dependencies([waiting.assign(True)]):
    batch = next(iterator)
  with (
    tf.control_dependencies(tf.nest.flatten(batch)),
    tf.control_dependencies([waiting.assign(False)]),
  ):
    return tf.nest.map_structure(tf.identity, batch)


def _now():
  """Seconds by the host's clock, as a float64 scalar, when the operation runs."""
  # TensorFlow's own refuses to run where all operations shall be deterministic.
  if tensorflow_internals.is_op_determinism_enabled():
    return tf.ensure_shape(tf.numpy_function(time.time, [], tf.float64), [])
  return tf.timestamp()
