"""Evaluation and prediction on a TPU: many groups are one program, as many steps are in a training.

The host hands over the input of several groups in one stack (`trainer.inputs.stacks`) and starts
the program. What the groups give stays in variables of the cores (`core_results`). The host reads
it once a program, and then counts it in the metrics, group by group: a metric_fn may be any
TensorFlow program, and sees the same tensors in the same order as on other devices.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.inputs import stacks
from trainer.programs import core_results, tpu_only
from trainer.programs import host_metrics as metrics_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind


class GroupProgram:
  """A program of several groups, which was traced for the stacks of one kind of input.

  Args:
    program: the step.Program.
    kind: EVAL or PREDICT.
    element_spec: of a stack's elements, see `stacks.spec_of`.
    groups: the most groups of the program.
    limit_bytes: the most bytes that the results of the program take on one core.

  Attributes:
    groups: see Args.
    function: its concrete function, of (elements, first, count).
    step: what the trace of its step found.
    bytes_of_group: the bytes of one group's results on one core.

  Raises:
    core_results.TooLarge: the results of so many groups exceed limit_bytes.
  """

  def __init__(
    self, program: step_lib.Program, kind: Kind, element_spec: tuple, groups: int, limit_bytes: int
  ) -> None:
    self.groups = groups
    results = core_results.CoreResults(program.store, kind, groups, limit_bytes)
    found: list[step_lib.TracedStep] = []

    def run(elements, first, count):
      found.append(program.run_groups(kind, elements, first, count, results))

    scalar = tf.TensorSpec([], tf.int32)
    function = tf.function(run, autograph=False)
    self.function = function.get_concrete_function(element_spec, scalar, scalar)
    tpu_only.check(self.function, program.calls.model_name)
    self.step = found[-1]
    self.bytes_of_group = results.bytes_of_group
    self._results = tf.function(results.read, autograph=False)
    self._counting: dict[str, Any] = {}  # by the evaluation's name

  def start(self, stack: stacks.GroupStack, count: int) -> None:
    """Starts on the next groups of a stack. A TPU works on them after this has returned."""
    self.function(stack.elements, tf.constant(stack.first), tf.constant(count))
    stack.first += count

  def results(self) -> Any:
    """Returns what the groups have given, see CoreResults.read; waits for them."""
    return self._results()

  def count(
    self, results: Any, rows: np.ndarray, name: str, host_metrics: metrics_lib.HostMetrics
  ) -> dict[str, Any]:
    """Counts evaluated groups.

    Args:
      results: what `results` has returned.
      rows: int64 [groups, cores]; how many examples of each batch count.
      name: the evaluation's name.
      host_metrics: the metrics of this name.

    Returns:
      A dict of "loss_sum" (float64, the sum over the examples) and "metrics" (those so far).
    """
    if name not in self._counting:
      self._counting[name] = tf.function(self._counted(host_metrics), autograph=False)
    missing = np.zeros([self.groups - len(rows), rows.shape[1]], rows.dtype)
    return self._counting[name](
      results, tf.constant(np.concatenate([rows, missing])), tf.constant(len(rows))
    )

  def _counted(self, host_metrics):
    def count(results, rows, groups):
      losses, tensors = results
      found = []

      def body(index, loss_sum):
        of_group = rows[index]
        readers = add_to_metrics(
          host_metrics,
          self.step.metric_fn,
          tf.nest.map_structure(lambda tensor: tensor[index], tensors),
          of_group > 0,
        )
        found.append(readers)
        return index + 1, loss_sum + sum_of_losses(losses[index], of_group)

      _, loss_sum = tf.while_loop(
        lambda index, _: index < groups, body, [tf.constant(0), tf.constant(0, tf.float64)]
      )
      return dict(loss_sum=loss_sum, metrics=metrics_lib.read(found[-1]))

    return count


def add_to_metrics(
  host_metrics: metrics_lib.HostMetrics, metric_fn: Callable | None, tensors: Any, counts: tf.Tensor
) -> dict[str, Callable[[], tf.Tensor]]:
  """Adds the batches of a group that count to metrics; called while a function is traced.

  Args:
    host_metrics: the metrics.
    metric_fn: the metric_fn, or None.
    tensors: its arguments, [cores · per-core batch, ...].
    counts: bool [cores].

  Returns:
    What HostMetrics.update does.
  """

  def of_whole(tensor):
    return tf.boolean_mask(tensor, tf.repeat(counts, tensor.shape[0] // counts.shape[0]))

  return host_metrics.update(metric_fn, tf.nest.map_structure(of_whole, tensors))


def sum_of_losses(losses: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
  """Returns the sum of a group's losses over its examples, float64.

  Args:
    losses: float32 [cores], each the mean of a batch.
    rows: int64 [cores], the examples that count in each batch.
  """
  # What an empty batch gives may be anything, also NaN.
  weighted = tf.cast(losses, tf.float64) * tf.cast(rows, tf.float64)
  return tf.reduce_sum(tf.where(rows > 0, weighted, 0))


class Groups:
  """The programs of several groups of a Program.

  Args:
    program: the step.Program.
    replicas: number of batches in a group: the replicas of this process.
  """

  def __init__(self, program: step_lib.Program, replicas: int) -> None:
    self._program = program
    self._replicas = replicas
    self._traces: dict[Any, GroupProgram] = {}

  def trace(self, kind: Kind, element_spec: Any, groups: int, limit_bytes: int) -> GroupProgram:
    """Traces the program, once for each kind of input.

    Args:
      kind: EVAL or PREDICT.
      element_spec: of one core's batch.
      groups: the most groups in a program.
      limit_bytes: the most bytes that its results take on one core.

    Raises:
      core_results.TooLarge: the results of so many groups exceed limit_bytes.
    """
    element_spec = stacks.spec_of(element_spec, groups, self._replicas)
    key = kind, groups, limit_bytes, tf.data.IteratorSpec(element_spec)
    if key not in self._traces:
      self._traces[key] = GroupProgram(self._program, kind, element_spec, groups, limit_bytes)
    return self._traces[key]

  def reader(self, dataset: tf.data.Dataset, groups: int) -> stacks.GroupStackReader:
    """Makes the input of a program of several groups.

    Args:
      dataset: groups, see `trainer.inputs.groups`.
      groups: the most groups in the program.
    """
    devices = self._program.strategy.extended.worker_devices
    return stacks.GroupStackReader(stacks.stack_groups(dataset, groups), devices)


def predict(
  program: GroupProgram, reader: stacks.GroupStackReader, with_examples: bool
) -> Iterator[tuple[Any, np.ndarray, Any]]:
  """Predicts for the groups of a reader's stacks, a program at a time.

  Args:
    program: the program.
    reader: of the groups.
    with_examples: whether to return the examples too.

  Yields:
    (predictions, rows, element) of each group: nests of numpy arrays [cores · per-core batch, ...],
    padding included; and how many examples of each core's batch are real. The element is None
    unless with_examples is true.
  """
  while (stack := reader.current()) is not None:
    first, count = stack.first, stack.left
    program.start(stack, count)
    # Now, not when the caller asks for more: another prediction may use the same variables then.
    results = tf.nest.map_structure(lambda tensor: tensor.numpy(), program.results())
    for index in range(count):
      yield (
        tf.nest.map_structure(lambda array, index=index: array[index], results),
        stack.rows[first + index],
        stack.examples(first + index) if with_examples else None,
      )
