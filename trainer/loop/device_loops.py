"""Many steps in one call of the device, and the outer loop in plain Python around it.

The device loops are `tf.function`s that take an iterator and a number of steps: Python is asked
once a loop, not once a step. The outer loop, `train`, decides how many steps the next loop has,
runs it, and calls the hooks.
"""

import functools

import numpy as np
import tensorflow as tf

from trainer.internals import tensorflow_internals
from trainer.loop import executor
from trainer.reporting import host_metrics as metrics_lib
from trainer.reporting import step_times, summaries

# How many groups are predicted in a call.
_SMALL_GROUPS = 32  # with 64 the digits gain no more
_LARGE_GROUPS = 4  # with which a core that has nothing left to do in a step is at work on the next
_STEPS_AT_WORK = 2  # in such a call: with more, large ones are no faster, and take more memory


class DeviceLoops:
  """The device loops of a step.Program; each is traced once for each kind of input.

  Args:
    program: the step.Program.
    replicas: the number of batches that a step takes: this process's replicas.
    host_call_every_n_steps: how often a host_call is made.
    on_one_cpu: whether the device is a CPU as one core.
  """

  def __init__(self, program, replicas, host_call_every_n_steps=1, on_one_cpu=False):
    self._program = program
    self._on_one_cpu = on_one_cpu
    self._replicas = replicas
    self._host_call_every = host_call_every_n_steps
    self._metrics = {}  # HostMetrics by the name of the evaluation
    self._writers = []  # of summaries, made in a host_call's function
    self._single_thread = False  # whether the training loop runs so, see `executor`
    with tf.device("/cpu:0"):
      # Whether the training loop waits for input.
      self._waiting = tf.Variable(False, trainable=False) if on_one_cpu else None
    self._train_loop = tf.function(self._train, autograph=False)
    self.evaluate = tf.function(self._evaluate, autograph=False)
    self.evaluate_partial = tf.function(self._evaluate_partial, autograph=False)
    self._predict_step = tf.function(self._predict, autograph=False)
    self._predict_several = {}  # by what trace_predict has returned

  def train(self, iterator, steps, endless):
    """Runs the training loop, see `_train`."""
    with executor.single_thread(self._single_thread), step_times.mark_loop():
      return self._train_loop(iterator, steps, endless)

  def trace_train(self, iterator, endless):
    """Traces the training loop for an iterator; returns the concrete function."""
    return self._train_loop.get_concrete_function(iterator, tf.TensorSpec([], tf.int64), endless)

  def _train(self, iterator, steps, endless):
    """Trains for up to `steps` (int64 scalar), fewer if the iterator ends, which is not looked for
    where it is `endless` (Python bool).

    Returns:
      dict of scalars: "loss" (float32, the mean over the steps), "steps" (int64, those done),
      "non_finite_step" (int64, the first global step whose loss was not finite, or -1),
      "input_seconds" (float64, time in which the device had no batch), and "scalars", a dict of the
      float32 values that the last step gave to tf.summary.
    """
    program = self._program
    start = program.global_step.read_value()

    def step(batches, state, asked_at):
      done, _, loss_sum, non_finite, waited, free_at = state
      with tf.control_dependencies(tf.nest.flatten(batches)):
        ready_at = tf.timestamp()
      # Else eight replicas would be at work before anyone looks at the clock.
      with tf.control_dependencies([ready_at]):
        batches = tf.nest.map_structure(tf.identity, batches)
      with tensorflow_internals.AutomaticControlDependencies() as everything:
        loss, host_tensors = program.train(batches)
        # There when the whole step is done, not when the loss is.
        loss = everything.mark_as_return(loss)
      done += 1
      self._call_host(start + done, host_tensors)
      program.global_step.assign(start + done)
      non_finite = tf.where((non_finite < 0) & ~tf.math.is_finite(loss), start + done, non_finite)
      waited += tf.maximum(ready_at - tf.maximum(free_at, asked_at), 0)
      with tf.control_dependencies([loss]):
        free_at = tf.timestamp()
      return done, True, loss_sum + tf.cast(loss, tf.float64), non_finite, waited, free_at

    def body(*state):
      asked_at = tf.timestamp()
      if endless:
        return step(self._next_batches(iterator), state, asked_at)
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
      tf.timestamp(),
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
    with tf.control_dependencies([self._waiting.assign(True)]):
      batch = next(iterator)
    with (
      tf.control_dependencies(tf.nest.flatten(batch)),
      tf.control_dependencies([self._waiting.assign(False)]),
    ):
      return [tf.nest.map_structure(tf.identity, batch)]

  def failed_in_input(self):
    """Whether the training loop, of which an error came, waited for input; None where only the
    error can tell.
    """
    return bool(self._waiting) if self._single_thread else None

  def _call_host(self, step, tensors):
    """Calls the host_call's function after the step that its tensors are of."""
    fn = self._program.host_fn
    if fn is None:
      return

    def call():
      with tf.device("/cpu:0"), tf.name_scope(""), summaries.keep_writers(self._writers):
        fn(**tensors) if isinstance(tensors, dict) else fn(*tensors)
      return True

    tf.cond(tf.equal(step % self._host_call_every, 0), call, lambda: False)

  def host_metrics(self, name):
    """The HostMetrics of the evaluation of this name."""
    return self._metrics.setdefault(name, metrics_lib.HostMetrics())

  def _evaluate(self, iterator, group, steps, name):
    """Evaluates `group` and those that follow it, up to `steps` (int64 scalar), until one comes
    that is empty or has a partial batch.

    Returns:
      dict: "loss_sum" (float64, the sum over the examples), "rows" (int64, their number), "steps"
        (int64, groups done), "group" (the one to go on
      with) and "metrics" (dict of the values so far).
    """
    host_metrics = self.host_metrics(name)

    def is_whole(rows, size):
      return tf.reduce_any(rows > 0) & tf.reduce_all(tf.equal(rows, 0) | tf.equal(rows, size))

    def body(done, group, loss_sum, seen):
      element, rows = group
      losses, tensors = self._program.evaluate(self._split(element))
      real = tf.repeat(rows > 0, _batch_size(element))
      host_metrics.update(
        self._program.metric_fn,
        tf.nest.map_structure(lambda tensor: tf.boolean_mask(tensor, real), tensors),
      )
      loss_sum += tf.reduce_sum(
        tf.where(rows > 0, tf.cast(losses, tf.float64) * tf.cast(rows, tf.float64), 0)
      )
      return done + 1, _next_group(iterator, group), loss_sum, seen + tf.reduce_sum(rows)

    def goes_on(done, group, *_):
      return (done < steps) & is_whole(group[1], _batch_size(group[0]))

    initial = tf.constant(0, tf.int64), group, tf.constant(0, tf.float64), tf.constant(0, tf.int64)
    done, group, loss_sum, seen = tf.while_loop(goes_on, body, initial)
    return dict(
      loss_sum=loss_sum, rows=seen, steps=done, group=group, metrics=host_metrics.results()
    )

  def _evaluate_partial(self, element, name):
    """Evaluates one batch at its own size: every replica gets all of it, and the first one's
    word counts, so that any loss is exact.
    """
    host_metrics = self.host_metrics(name)
    size = _sizes(tf.nest.flatten(element)[0])[0]
    losses, tensors = self._program.evaluate([element] * self._replicas)
    host_metrics.update(
      self._program.metric_fn,
      tf.nest.map_structure(lambda tensor: tensor[: _sizes(tensor)[0] // self._replicas], tensors),
    )
    return dict(loss_sum=tf.cast(losses[0], tf.float64) * size, metrics=host_metrics.results())

  def trace_predict(self, iterator):
    """Traces a prediction for an iterator over groups; returns the concrete function."""
    return self._predict_step.get_concrete_function(iterator)

  def predict(self, traced, iterator, groups=None, with_examples=False):
    """Predicts for the groups of an iterator.

    Several are made in a call, if it is known that they come: where each is a call, Python's part
    of a small step is the larger, and in a large one a core waits for the other at the end. An
    input that may have to wait for its examples does not know how many there are, and gets each
    group's predictions as soon as they can be had.

    Args:
      traced: what trace_predict has returned for the iterator; to look it up for each group would
        take as long as a small group.
      iterator: that iterator.
      groups: how many it gives, None if that is not known.

    Yields:
      (predictions, element): numpy arrays of the examples that are real, in order; the element is
      None unless `with_examples`.
    """
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
    """(predictions, element) of the examples that are real, of what _predict returns."""
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
    """(predictions, rows, element) of the next group: for each example a row, also for those
    that are not real.
    """
    element, rows = next(iterator)
    predictions = self._program.predict(self._split(element))
    return (
      predictions,
      rows,
      tf.nest.map_structure(lambda tensor: tf.reshape(tensor, [-1, *_sizes(tensor)[2:]]), element),
    )

  def _split(self, element):
    return [
      tf.nest.map_structure(lambda tensor, i=i: tensor[i], element) for i in range(self._replicas)
    ]


def _batch_size(element):
  return _sizes(tf.nest.flatten(element)[0])[1]


def _sizes(tensor):
  return tensor.shape.as_list()


def _on_host(tensors):
  return tf.nest.map_structure(lambda tensor: tensor.numpy(), tensors)


def _several(traced, count, iterator):
  """What `traced` returns for each of the next `count` groups, one above the other."""
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
