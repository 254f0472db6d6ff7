"""Runs many steps in one call of the device.

A device loop is a `tf.function` that takes an iterator and a number of steps. Python pays its
overhead once per loop, not once per step. `outer_loop` decides how many steps a loop has.
"""

import functools
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.inputs import stacks
from trainer.internals import tensorflow_internals
from trainer.kinds import Kind
from trainer.loop import executor, multi_group, multi_step
from trainer.loop import step as step_lib
from trainer.reporting import host_metrics as metrics_lib
from trainer.reporting import step_times, summaries

# Number of groups that one call predicts. For a light step (see `executor`) the point is to save
# Python's overhead: the digits model gains nothing from 64. For a heavy step the point is that a
# core without work in one group starts on the next one.
_SMALL_GROUPS = 32
_LARGE_GROUPS = 4
# Number of groups that such a call computes at the same time. With more, heavy steps are no faster
# and need more memory.
_STEPS_AT_WORK = 2


class DeviceLoops:
  """The device loops of a Program. Each loop is traced once for each kind of input.

  Args:
    program: the program.
    replicas: number of batches in a step: the replicas of this process.
    host_call_every_n_steps: number of steps from one host_call to the next.
    on_one_cpu: whether the device is a CPU as one core.
    xla: whether XLA compiles the programs of training steps.

  Attributes:
    xla: the argument.
    evaluate: the loop over whole batches, see `_evaluate`.
    evaluate_partial: the evaluation of one partial batch, see `_evaluate_partial`.
  """

  def __init__(
    self,
    program: step_lib.Program,
    replicas: int,
    host_call_every_n_steps: int = 1,
    on_one_cpu: bool = False,
    xla: bool = False,
  ) -> None:
    self.xla = xla
    self._program = program
    self._on_one_cpu = on_one_cpu
    self._replicas = replicas
    self._host_call_every = host_call_every_n_steps
    self._metrics: dict[str, metrics_lib.HostMetrics] = {}  # by the evaluation's name
    self._writers: list = []  # summary writers that host_call functions created
    self._single_thread = False  # whether the training loop runs in one thread, see `executor`
    with tf.device("/cpu:0"):
      # True while the training loop waits for input. Tells whose error it is, see failed_in_input.
      self._waiting = tf.Variable(False, trainable=False) if on_one_cpu else None
    self._train_loop = tf.function(self._train, autograph=False)
    self._traced: Any = None  # the training loop's concrete function for the newest iterator
    self._traced_for: Callable[[], Any] = lambda: None  # returns it, as long as it is in use
    self._multi_step = multi_step.MultiStep(program, self._call_host, host_call_every_n_steps, xla)
    self.evaluate = tf.function(self._evaluate, autograph=False)
    self.evaluate_partial = tf.function(self._evaluate_partial, autograph=False)
    self._predict_step = tf.function(self._predict, autograph=False)
    self._predict_several: dict = {}  # by the concrete function of trace_predict
    self._group_programs: dict = {}

  def stack_reader(self, dataset: tf.data.Dataset, steps: int) -> stacks.StackReader:
    """Makes the input of a training loop that has `steps` steps in a program.

    Args:
      dataset: per-core batches.
      steps: the most steps in a program.
    """
    return stacks.StackReader(stacks.stack(dataset, steps, self._replicas), self._devices())

  def hosts_stack_reader(
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

  def group_program(
    self, kind: Kind, element_spec: Any, groups: int, limit_bytes: int
  ) -> multi_group.GroupProgram:
    """Traces the program of several groups of an evaluation or a prediction.

    Args:
      kind: EVAL or PREDICT.
      element_spec: of one core's batch.
      groups: the most groups in a program.
      limit_bytes: the most bytes that its results take on one core.

    Raises:
      core_results.TooLarge: the results of so many groups exceed limit_bytes.
    """
    element_spec = stacks.spec_of(element_spec, groups, self._replicas)
    key = kind, groups, limit_bytes, str(element_spec)
    if key not in self._group_programs:
      self._group_programs[key] = multi_group.GroupProgram(
        self._program, kind, element_spec, groups, limit_bytes
      )
    return self._group_programs[key]

  def group_reader(
    self, dataset: tf.data.Dataset, program: multi_group.GroupProgram
  ) -> multi_group.GroupReader:
    """Makes the input of a program of several groups.

    Args:
      dataset: groups, see `trainer.inputs.groups`.
      program: what `group_program` has returned for them.
    """
    stacked = stacks.stack_groups(dataset, program.groups)
    return multi_group.GroupReader(stacked, self._devices(), program)

  def _devices(self):
    return self._program.strategy.extended.worker_devices

  def train(
    self, iterator: tf.data.Iterator | stacks.StackReader, steps: tf.Tensor, endless: bool
  ) -> dict[str, Any]:
    """Runs the training loop.

    Args:
      iterator: over per-core batches; a step takes one for each replica. Or what `stack_reader`
        makes.
      steps: int64 scalar: the number of steps.
      endless: whether the iterator never ends, so that the loop need not check for its end.

    Returns:
      A dict of scalar tensors:

      - "loss": float32, the mean over the steps.
      - "steps": int64, the number of steps done; fewer than asked for if the iterator ended.
      - "non_finite_step": int64, the first global step whose loss was not finite, or -1.
      - "input_seconds": float64, the time that the device waited for batches.
      - "scalars": dict of tag → float32, the values that the last step passed to tf.summary.scalar.
    """
    if isinstance(iterator, stacks.StackReader):
      with step_times.mark_loop():
        return self._multi_step.train(iterator, int(steps))
    # A tf.function would look its trace up for every loop, which takes as long as a light step.
    if self._traced_for() is not iterator:
      self._traced = self.trace_train(iterator, endless)
      self._traced_for = weakref.ref(iterator)
    with executor.single_thread(self._single_thread), step_times.mark_loop():
      return self._traced(iterator, steps, endless)

  def trace_train(
    self, iterator: tf.data.Iterator | stacks.StackReader, endless: bool
  ) -> tf.types.experimental.ConcreteFunction:
    """Traces the training loop without running it; returns its concrete function."""
    if isinstance(iterator, stacks.StackReader):
      return self.trace_steps(iterator.element_spec)
    return self._train_loop.get_concrete_function(iterator, tf.TensorSpec([], tf.int64), endless)

  def trace_steps(self, element_spec: tuple) -> tf.types.experimental.ConcreteFunction:
    """Traces the program of several training steps for the spec of a stack's elements."""
    return self._multi_step.trace(element_spec)

  def _train(self, iterator, steps, endless):
    """The body of `train`, which is traced."""
    program = self._program
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
        loss, host_tensors = program.train(batches)
        # The loss is computed long before the step ends. This makes it wait for the whole step, its
        # assignments too, so that `free_at` below is the end of the step.
        loss = everything.mark_as_return(loss)
      done += 1
      # After the step, before its number is counted: the host_call gets the step that it is for.
      self._call_host(start + done, host_tensors)
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
    self._single_thread = self._on_one_cpu and executor.mark_for_single_thread(done.op)
    return dict(
      loss=tf.cast(loss_sum / tf.cast(tf.maximum(done, 1), tf.float64), tf.float32),
      steps=done,
      non_finite_step=non_finite,
      input_seconds=waited,
      scalars={tag: variable.read_value() for tag, variable in program.scalars.items()},
    )

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

  def failed_in_input(self) -> bool | None:
    """Returns whether the training loop, which has raised an error, was waiting for input.

    Returns:
      None if the loop ran in several threads: then only the error itself can tell.
    """
    if self._multi_step.is_reading:
      return True
    return bool(self._waiting) if self._single_thread else None

  def _call_host(self, step, tensors):
    """Calls the function of the host_call with the step's tensors, if the step is due."""
    fn = self._program.host_fn
    if fn is None:
      return

    def call():
      with tf.device("/cpu:0"), tf.name_scope(""), summaries.keep_writers(self._writers):
        fn(**tensors) if isinstance(tensors, dict) else fn(*tensors)
      return True

    if self._host_call_every == 1:
      call()  # a condition would keep the loop from being light, see `executor`
    else:
      tf.cond(tf.equal(step % self._host_call_every, 0), call, lambda: False)

  def host_metrics(self, name: str) -> metrics_lib.HostMetrics:
    """Returns the metrics of the evaluation with this name; "" for the one without a name."""
    return self._metrics.setdefault(name, metrics_lib.HostMetrics(self._program.store))

  def _evaluate(self, iterator, group, steps, name):
    """Evaluates whole batches.

    Starts with `group` and stops before a group that is empty or has a partial batch.

    Args:
      iterator: over the groups that follow, see `trainer.inputs.groups`.
      group: the first group.
      steps: int64 scalar: the most groups to evaluate.
      name: the evaluation's name.

    Returns:
      A dict:

      - "loss_sum": float64, the sum over the examples.
      - "rows": int64, the number of examples.
      - "steps": int64, the number of groups evaluated.
      - "group": the group to continue with.
      - "metrics": dict of the metrics so far.
    """
    host_metrics = self.host_metrics(name)

    # A replica's batch counts as whole if it is full or empty: an empty one is left out below.
    def is_whole(rows, size):
      return tf.reduce_any(rows > 0) & tf.reduce_all(tf.equal(rows, 0) | tf.equal(rows, size))

    def body(done, group, loss_sum, seen):
      element, rows = group
      losses, tensors = self._program.evaluate(self._split(element))
      multi_group.add_to_metrics(host_metrics, self._program.metric_fn, tensors, rows > 0)
      loss_sum += multi_group.sum_of_losses(losses, rows)
      return done + 1, _next_group(iterator, group), loss_sum, seen + tf.reduce_sum(rows)

    def goes_on(done, group, *_):
      return (done < steps) & is_whole(group[1], _batch_size(group[0]))

    initial = tf.constant(0, tf.int64), group, tf.constant(0, tf.float64), tf.constant(0, tf.int64)
    done, group, loss_sum, seen = tf.while_loop(goes_on, body, initial)
    return dict(
      loss_sum=loss_sum, rows=seen, steps=done, group=group, metrics=host_metrics.results()
    )

  def _evaluate_partial(self, element, name):
    """Evaluates one batch that is smaller than the others.

    Every replica computes the whole batch. Only replica 0's result is used, so the loss is exact
    for any batch size.

    Args:
      element: the batch, without padding.
      name: the evaluation's name.

    Returns:
      A dict: "loss_sum" (float64) and "metrics" (dict of the metrics so far).
    """
    host_metrics = self.host_metrics(name)
    size = _sizes(tf.nest.flatten(element)[0])[0]
    losses, tensors = self._program.evaluate([element] * self._replicas)
    host_metrics.update(
      self._program.metric_fn,
      tf.nest.map_structure(lambda tensor: tensor[: _sizes(tensor)[0] // self._replicas], tensors),
    )
    return dict(loss_sum=tf.cast(losses[0], tf.float64) * size, metrics=host_metrics.results())

  def trace_predict(
    self, iterator: tf.data.Iterator | multi_group.GroupReader
  ) -> tf.types.experimental.ConcreteFunction:
    """Traces a prediction step for an iterator over groups; returns its concrete function."""
    if isinstance(iterator, multi_group.GroupReader):
      return iterator.program.traced
    return self._predict_step.get_concrete_function(iterator)

  def predict(
    self,
    traced: tf.types.experimental.ConcreteFunction,
    iterator: tf.data.Iterator | multi_group.GroupReader,
    groups: int | None = None,
    with_examples: bool = False,
  ) -> Iterator[tuple[Any, Any]]:
    """Predicts for the groups of an iterator.

    If the number of groups is known, one call predicts several groups. With one group per call,
    Python's overhead would take longer than a light step; in a heavy step one core would wait for
    the other at its end. If the number is not known, the input may be slow, and each group's
    predictions come as soon as possible.

    Args:
      traced: the concrete function that trace_predict returned for this iterator. A tf.function
        would look it up for every group, which takes as long as a light step.
      iterator: over groups, see `trainer.inputs.groups`; or what `group_reader` makes.
      groups: number of groups in the iterator, or None.
      with_examples: whether to return the examples too.

    Yields:
      (predictions, element): nests of numpy arrays, the real examples only, in order. The element
      is None unless with_examples is true.
    """
    if isinstance(iterator, multi_group.GroupReader):
      for result in multi_group.predict(iterator, with_examples):
        yield self._real(result, with_examples)
      return
    at_once = _SMALL_GROUPS if executor.is_light(traced.graph) else _LARGE_GROUPS
    if self._on_one_cpu and groups is not None and groups >= 2 * at_once:
      if traced not in self._predict_several:
        self._predict_several[traced] = tf.function(
          functools.partial(_several, traced, at_once), autograph=False
        )
      for _ in range(groups // at_once):
        results = _on_host(self._predict_several[traced](iterator))
        for i in range(at_once):
          yield self._real(
            tf.nest.map_structure(lambda array, i=i: array[i], results), with_examples
          )
    while True:
      try:
        result = traced(iterator)
      except tf.errors.OutOfRangeError:
        return
      yield self._real(_on_host(result), with_examples)

  def _real(self, result, with_examples):
    """Drops the padding from a result of `_predict`; returns (predictions, element)."""
    predictions, rows, element = result
    size = tf.nest.flatten(predictions)[0].shape[0] // self._replicas
    if (rows == size).all():
      return predictions, element if with_examples else None

    def real(array):
      return np.concatenate([array[i * size : i * size + count] for i, count in enumerate(rows)])

    return tf.nest.map_structure(real, predictions), tf.nest.map_structure(
      real, element
    ) if with_examples else None

  def _predict(self, iterator):
    """Predicts the next group; returns (predictions, rows, element), padding included."""
    element, rows = next(iterator)
    predictions = self._program.predict(self._split(element))
    return predictions, rows, tf.nest.map_structure(_of_all_replicas, element)

  def _split(self, element):
    return [
      tf.nest.map_structure(lambda tensor, i=i: tensor[i], element) for i in range(self._replicas)
    ]


def _now():
  """Seconds by the host's clock, as a float64 scalar, when the operation runs."""
  # TensorFlow's own refuses to run where all operations shall be deterministic.
  if tensorflow_internals.is_op_determinism_enabled():
    return tf.ensure_shape(tf.numpy_function(time.time, [], tf.float64), [])
  return tf.timestamp()


def _batch_size(element):
  return _sizes(tf.nest.flatten(element)[0])[1]


def _of_all_replicas(tensor):
  """[replicas, batch, ...] as [replicas * batch, ...], where some sizes may be unknown."""
  sizes = _sizes(tensor)[2:]
  shape = tf.concat([[-1], tf.shape(tensor)[2:]], 0) if None in sizes else [-1, *sizes]
  return tf.reshape(tensor, shape)


def _sizes(tensor):
  return tensor.shape.as_list()


def _on_host(tensors):
  return tf.nest.map_structure(lambda tensor: tensor.numpy(), tensors)


def _several(traced, count, iterator):
  """Calls `traced` for the next `count` groups; stacks the results along a new first axis."""
  like = traced.structured_outputs

  def body(done, arrays):
    results = tf.nest.flatten(traced(iterator))
    return done + 1, [
      array.write(done, result) for array, result in zip(arrays, results, strict=True)
    ]

  arrays = [
    tf.TensorArray(leaf.dtype, count, element_shape=leaf.shape) for leaf in tf.nest.flatten(like)
  ]
  _, arrays = tf.while_loop(
    lambda done, _: done < count, body, (tf.constant(0), arrays), parallel_iterations=_STEPS_AT_WORK
  )
  return tf.nest.pack_sequence_as(like, [array.stack() for array in arrays])


def _next_group(iterator, like):
  optional = iterator.get_next_as_optional()
  return tf.cond(
    optional.has_value(), optional.get_value, lambda: tf.nest.map_structure(tf.zeros_like, like)
  )
