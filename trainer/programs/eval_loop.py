"""Evaluates many groups of batches in one call of the device."""

import dataclasses
from typing import Any

import tensorflow as tf

from trainer.programs import group_results
from trainer.programs import host_metrics as metrics_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind


@dataclasses.dataclass(frozen=True)
class TracedEvaluation:
  """The traced loop over whole batches of one kind of input.

  Attributes:
    function: the concrete function of (iterator, group, steps).
    step: the TracedStep of its step.
  """

  function: tf.types.experimental.ConcreteFunction
  step: step_lib.TracedStep

  def read(self, dataset: tf.data.Dataset) -> tf.data.Iterator:
    """Returns the iterator from which `run` takes the groups of a dataset."""
    return iter(dataset)

  def run(self, iterator: tf.data.Iterator, group: tuple, steps: int) -> dict[str, Any]:
    """Evaluates whole batches.

    Starts with `group` and stops before an empty group or one with a partial batch.

    Args:
      iterator: over the groups after `group`, see `trainer.inputs.groups`.
      group: the first group.
      steps: the largest number of groups to evaluate.

    Returns:
      A dict:

      - "loss_sums": float64 [1 or more, 2], see group_results.sums_of_losses.
      - "rows": int64, the number of examples.
      - "steps": int64, the number of groups evaluated.
      - "group": the group to continue with.
      - "metrics": dict of the metrics so far.
    """
    return self.function(iterator, group, tf.constant(steps, tf.int64))


class EvalLoop:
  """The evaluations of a Program. Each name has its own metrics.

  Args:
    program: the program.
    replicas: number of batches in a group: the replicas of this process.
  """

  def __init__(self, program: step_lib.Program, replicas: int) -> None:
    self._program = program
    self._replicas = replicas
    self._metrics: dict[str, metrics_lib.HostMetrics] = {}  # by the evaluation's name
    self._partial = tf.function(self._evaluate_partial, autograph=False)

  def host_metrics(self, name: str) -> metrics_lib.HostMetrics:
    """Returns the metrics of the evaluation with this name; "" for the one without a name."""
    return self._metrics.setdefault(name, metrics_lib.HostMetrics(self._program.store))

  def trace(self, group_spec: tuple, name: str) -> TracedEvaluation:
    """Traces the loop over whole batches of an evaluation.

    Args:
      group_spec: of the iterator over groups, see `trainer.inputs.groups`.
      name: the evaluation's name.
    """
    found = []

    def evaluate(iterator, group, steps):
      results, traced = self._loop(iterator, group, steps, self.host_metrics(name))
      found.append(traced)
      return results

    function = tf.function(evaluate, autograph=False).get_concrete_function(
      tf.data.IteratorSpec(group_spec), group_spec, tf.TensorSpec([], tf.int64)
    )
    return TracedEvaluation(function, found[-1])

  def _loop(self, iterator, group, steps, host_metrics):
    """Adds the loop to the function in trace; returns (results, TracedStep)."""
    found = []

    # Count a replica's batch as whole if it is full or empty: the code below leaves out empty
    # batches.
    def is_whole(rows, size):
      return tf.reduce_any(rows > 0) & tf.reduce_all(tf.equal(rows, 0) | tf.equal(rows, size))

    def body(done, group, sums, seen):
      element, rows = group
      batches = split(element, self._replicas)
      (losses, tensors), traced = self._program.run_step(Kind.EVAL, batches)
      readers = group_results.add_to_metrics(host_metrics, traced.metric_fn, tensors, rows > 0)
      # A tf.while_loop may trace its body more than once. Only the last trace belongs to the loop.
      found.append((traced, readers))
      sums += group_results.sums_of_losses(losses, rows)
      return done + 1, _next_group(iterator, group), sums, seen + tf.reduce_sum(rows)

    def goes_on(done, group, *_):
      return (done < steps) & is_whole(group[1], _batch_size(group[0]))

    # A float32 sum of losses over a large set would lose the small terms: use float64. The trace of
    # the body finds the global means, hence the number of sums; one row broadcasts to it.
    sums = tf.zeros([1, 2], tf.float64)
    initial = tf.constant(0, tf.int64), group, sums, tf.constant(0, tf.int64)
    shapes = tf.nest.map_structure(lambda part: part.shape, initial)
    done, group, sums, seen = tf.while_loop(
      goes_on, body, initial, (*shapes[:2], tf.TensorShape([None, 2]), shapes[3])
    )
    traced, readers = found[-1]
    metrics = metrics_lib.read(readers)
    return dict(loss_sums=sums, rows=seen, steps=done, group=group, metrics=metrics), traced

  def evaluate_partial(self, element: Any, name: str) -> dict[str, Any]:
    """Evaluates one batch smaller than the others.

    Every replica computes the whole batch. Octet uses only replica 0's result, so the loss is exact
    for any batch size.

    Args:
      element: the batch, without padding.
      name: the evaluation's name.

    Returns:
      A dict: "loss_sums" (as `TracedEvaluation.run`) and "metrics" (dict of the metrics so far).
    """
    return self._partial(element, name)

  def _evaluate_partial(self, element, name):
    size = _sizes(tf.nest.flatten(element)[0])[0]
    batches = [element] * self._replicas
    (losses, tensors), traced = self._program.run_step(Kind.EVAL, batches)
    # The step joins the replicas' tensors, and each replica had the whole batch: keep one copy.
    of_one = tf.nest.map_structure(
      lambda tensor: tensor[: group_results.first_size(tensor) // self._replicas], tensors
    )
    readers = self.host_metrics(name).update(traced.metric_fn, of_one)
    sums = group_results.sums_of_losses(
      losses, tf.one_hot(0, self._replicas, size, 0, dtype=tf.int64)
    )
    return dict(loss_sums=sums, metrics=metrics_lib.read(readers))


def split(element: Any, replicas: int) -> list[Any]:
  """Returns the batches of the replicas in an element of a group."""
  return [tf.nest.map_structure(lambda tensor, i=i: tensor[i], element) for i in range(replicas)]


def _batch_size(element):
  return _sizes(tf.nest.flatten(element)[0])[1]


def _sizes(tensor):
  # A list also where a program has turned TensorFlow's new shapes off.
  return tensor.shape.as_list()


def _next_group(iterator, like):
  optional = iterator.get_next_as_optional()
  # A loop's values keep their shapes, so the end of the input is a group of zeros, without rows.
  return tf.cond(
    optional.has_value(), optional.get_value, lambda: tf.nest.map_structure(tf.zeros_like, like)
  )
