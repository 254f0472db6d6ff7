"""Evaluates groups of batches: what every device does, and the loop of TensorFlow's devices.

A TensorFlow function evaluates many groups in one call. `xla_groups` has the programs of XLA
devices.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.programs import group_results
from trainer.programs import host_metrics as metrics_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind

# Most groups in one call of the device. Python handles Ctrl-C only between two calls.
_LOOP = 64


@dataclasses.dataclass(frozen=True)
class Part:
  """Groups that an evaluation has taken from its input.

  Attributes:
    groups: the number of groups.
    examples: the number of examples in their whole batches.
    count: waits for the device; returns the "loss_sums" of the whole batches (float64, see
      group_results.sums_of_losses) and the "metrics" so far. None without a whole batch.
    partial: the batches of the last group that are smaller than others, without padding. Each one
      runs alone, after `count`.
  """

  groups: int
  examples: int
  count: Callable[[], dict[str, Any]] | None
  partial: list[Any]


class Evaluation(abc.ABC):
  """The evaluations with one name, of one kind of input.

  Attributes:
    metrics: the metrics of this name.
    step: the TracedStep.
  """

  metrics: metrics_lib.HostMetrics
  step: step_lib.TracedStep

  @abc.abstractmethod
  def read(self, dataset: tf.data.Dataset) -> Any:
    """Returns the reader from which `start` takes the groups of a dataset."""

  @abc.abstractmethod
  def start(self, reader: Any, most: int) -> Part | None:
    """Starts on the next groups, up to one with a partial batch; None at the end of the input.

    Args:
      reader: the result of `read`.
      most: the largest number of groups.
    """

  @abc.abstractmethod
  def evaluate_partial(self, batch: Any) -> dict[str, Any]:
    """Evaluates one batch smaller than the others, see Part; returns the results of Part.count.

    Every replica computes the whole batch. Octet uses only replica 0's result, so the loss is exact
    for any batch size.
    """

  def metric_names(self) -> list[str] | None:
    """Returns the names of the numbers of an evaluation; None if they are known after it only."""
    return None


@dataclasses.dataclass
class GroupReader:
  """Reads groups. A loop that stops before a group leaves it here.

  Attributes:
    iterator: over groups, see `trainer.inputs.groups`.
    group: the next group, or None if the iterator has it.
  """

  iterator: tf.data.Iterator
  group: Any = None

  def current(self) -> Any:
    """Returns the next group; None at the end."""
    if self.group is None:
      self.group = next(self.iterator, None)
    return self.group


class TracedEvaluation(Evaluation):
  """An evaluation on a device that TensorFlow drives.

  Args:
    program: the program.
    replicas: number of batches in a group.
    group_spec: of the groups, see `trainer.inputs.groups`.
    metrics: the metrics of the name.
  """

  def __init__(
    self,
    program: step_lib.Program,
    replicas: int,
    group_spec: tuple,
    metrics: metrics_lib.HostMetrics,
  ) -> None:
    self.metrics = metrics
    self._program = program
    self._replicas = replicas
    self._partial = tf.function(self._evaluate_partial, autograph=False)
    found = []

    def evaluate(iterator, group, steps):
      results, traced = self._loop(iterator, group, steps)
      found.append(traced)
      return results

    self._function = tf.function(evaluate, autograph=False).get_concrete_function(
      tf.data.IteratorSpec(group_spec), group_spec, tf.TensorSpec([], tf.int64)
    )
    self.step = found[-1]

  def metric_names(self) -> list[str]:
    """See Evaluation.metric_names."""
    metrics = self._function.structured_outputs["metrics"]
    return ["loss", *(name for name, value in metrics.items() if not value.shape.rank)]

  def read(self, dataset: tf.data.Dataset) -> GroupReader:
    """See Evaluation.read."""
    return GroupReader(iter(dataset))

  def start(self, reader: GroupReader, most: int) -> Part | None:
    """See Evaluation.start."""
    group = reader.current()
    if group is None:
      return None
    element, rows = group
    counts, size = rows.numpy(), _batch_size(element)
    if not counts.any():  # A group of padding only: the data ended.
      return None
    cores = partial_cores(counts, size)
    batches = [
      tf.nest.map_structure(lambda tensor, core=core: tensor[core, : counts[core]], element)
      for core in cores
    ]
    reader.group = None
    if not (counts == size).any():
      return Part(1, 0, None, batches)
    wanted = min(most, _LOOP)
    if cores:
      # A group may hold both kinds. Here, empty batches replace the partial ones.
      group, wanted = (element, tf.where(tf.equal(rows, size), rows, 0)), 1
    result = self._function(reader.iterator, group, tf.constant(wanted, tf.int64))
    reader.group = result["group"]
    return Part(int(result["steps"]), int(result["rows"]), lambda: result, batches)

  def _loop(self, iterator, group, steps):
    """Adds the loop over whole batches to the function in trace; returns (results, TracedStep).

    The loop starts with `group` and stops before an empty group or one with a partial batch. The
    results are a dict: "loss_sums" and "metrics", see Part.count; "rows", the number of examples;
    "steps", the number of groups; "group", the group to continue with.
    """
    found = []

    # Count a replica's batch as whole if it is full or empty: the code below leaves out empty
    # batches.
    def is_whole(rows, size):
      return tf.reduce_any(rows > 0) & tf.reduce_all(tf.equal(rows, 0) | tf.equal(rows, size))

    def body(done, group, sums, seen):
      element, rows = group
      batches = split(element, self._replicas)
      (losses, tensors), traced = self._program.run_step(Kind.EVAL, batches)
      readers = group_results.add_to_metrics(self.metrics, traced.metric_fn, tensors, rows > 0)
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

  def evaluate_partial(self, batch: Any) -> dict[str, Any]:
    """See Evaluation.evaluate_partial."""
    return self._partial(batch)

  def _evaluate_partial(self, batch):
    size = _sizes(tf.nest.flatten(batch)[0])[0]
    (losses, tensors), traced = self._program.run_step(Kind.EVAL, [batch] * self._replicas)
    # The step joins the replicas' tensors, and each replica had the whole batch: keep one copy.
    of_one = tf.nest.map_structure(
      lambda tensor: tensor[: group_results.first_size(tensor) // self._replicas], tensors
    )
    readers = self.metrics.update(traced.metric_fn, of_one)
    sums = group_results.sums_of_losses(
      losses, tf.one_hot(0, self._replicas, size, 0, dtype=tf.int64)
    )
    return dict(loss_sums=sums, metrics=metrics_lib.read(readers))


def split(element: Any, replicas: int) -> list[Any]:
  """Returns the batches of the replicas in an element of a group."""
  return [tf.nest.map_structure(lambda tensor, i=i: tensor[i], element) for i in range(replicas)]


def partial_cores(rows: np.ndarray, size: int) -> list[int]:
  """Returns the cores with a batch that is neither full nor empty, of the rows of a group."""
  return [core for core, count in enumerate(rows) if 0 < count < size]


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
