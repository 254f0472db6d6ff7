"""Evaluation and prediction on a TPU: many groups are one program, as many steps are in a training.

The host hands over the input of several groups in one stack (`trainer.inputs.stacks`) and starts
the program. What the groups give stays in variables of the cores (`core_results`). The host reads
it once a program, and then counts it in the metrics, group by group: a metric_fn may be any
TensorFlow program, and sees the same tensors in the same order as on other devices.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.inputs import stacks
from trainer.programs import host_metrics as metrics_lib
from trainer.programs import step as step_lib
from trainer.programs import traced_program


class GroupProgram:
  """A program of several groups, which was traced for the stacks of one kind of input.

  Args:
    program: the step.Program.
    traced: the TracedProgram.

  Attributes:
    plan: what was traced.
    function: its concrete function.
    step: what the trace of its step found.
    bytes_of_group: the bytes of one group's results on one core.
  """

  def __init__(self, program: step_lib.Program, traced: traced_program.TracedProgram) -> None:
    self.plan = traced.plan
    self.function = traced.concrete
    self.step = traced.step
    self.bytes_of_group = traced.kept.bytes_of_group
    self._devices = program.strategy.extended.worker_devices
    self._results = tf.function(traced.kept.read, autograph=False)
    self._counting: dict[str, Any] = {}  # by the evaluation's name

  def put(self, elements: Sequence) -> Any:
    """Puts each core's element of a stack on its device."""
    return stacks.put_on(self._devices)(elements)

  def read(self, dataset: tf.data.Dataset) -> stacks.GroupStackReader:
    """Returns what reads the groups of a dataset in stacks."""
    return stacks.GroupStackReader(stacks.stack_groups(dataset, self.plan.length), self.put)

  def start(self, stack: stacks.GroupStack, count: int) -> None:
    """Starts on the next groups of a stack. A TPU works on them after this has returned."""
    places = tf.constant(stack.first), tf.constant(count)
    self.function(*tf.nest.flatten(stack.elements), *places)
    stack.first += count

  def results(self) -> Any:
    """Returns what the groups have given, see CoreResults.read; waits for them."""
    return self._results()

  def run(
    self, reader: stacks.GroupStackReader, groups: int | None = None, with_examples: bool = False
  ) -> Iterator[tuple[Any, Any]]:
    """Predicts for the groups of a reader's stacks, a program at a time.

    See predict_loop.TracedPrediction.run.
    """
    del groups  # each stack says how many it has
    while (stack := reader.current()) is not None:
      first, count = stack.first, stack.left
      self.start(stack, count)
      # Now, not when the caller asks for more: another prediction may use the same variables then.
      results = on_host(self.results())
      for index in range(first, first + count):
        yield without_padding(
          tf.nest.map_structure(lambda array, place=index - first: array[place], results),
          stack.rows[index],
          stack.examples(index) if with_examples else None,
        )

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
    missing = np.zeros([self.plan.length - len(rows), rows.shape[1]], rows.dtype)
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


def without_padding(predictions: Any, rows: np.ndarray, element: Any) -> tuple[Any, Any]:
  """Drops the padding from what was predicted for a group, and from its examples.

  Args:
    predictions: nest of numpy arrays [cores · per-core batch, ...].
    rows: int64 [cores], the examples of each core's batch that are real.
    element: the examples, as the predictions; or None.

  Returns:
    (predictions, element): the real examples only.
  """
  size = tf.nest.flatten(predictions)[0].shape[0] // len(rows)
  if (rows == size).all():
    return predictions, element

  def real(array):
    return np.concatenate([array[i * size : i * size + count] for i, count in enumerate(rows)])

  # tf.nest would take None for an example.
  of_examples = None if element is None else tf.nest.map_structure(real, element)
  return tf.nest.map_structure(real, predictions), of_examples


def on_host(tensors: Any) -> Any:
  """Returns the numpy arrays of tensors; waits for them."""
  return tf.nest.map_structure(lambda tensor: tensor.numpy(), tensors)
