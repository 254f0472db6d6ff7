"""The outer loop of an evaluation. Every example counts once, on any number of replicas.

Device loops evaluate whole batches. A partial batch, such as the last batch of a dataset, runs
alone at its own size. No padding therefore enters the loss, for any mean in a model_fn.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer.inputs import stacks
from trainer.programs import device_loops, eval_loop, xla_groups

# Most groups in one call of the device. Python handles Ctrl-C only between two calls.
_LOOP = 64


@dataclasses.dataclass(frozen=True)
class Result:
  """The result of one evaluation.

  Attributes:
    values: "loss" and the metrics by name: floats, or numpy arrays for other metrics than scalars.
      Empty if there were no examples.
    examples: the number of examples.
  """

  values: dict[str, Any]
  examples: int


@dataclasses.dataclass
class _Totals:
  """What the groups add up to so far."""

  # Of the rest of the loss, and of each of its global means: see group_results.sums_of_losses.
  loss_sums: Any = 0.0
  examples: int = 0
  done: int = 0  # Groups.
  metrics: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)

  def add(self, result: dict[str, Any], examples: int) -> None:
    """Adds the results of batches with a number of examples."""
    self.loss_sums = self.loss_sums + np.asarray(result["loss_sums"])
    self.examples += examples
    self.metrics = result["metrics"]


def evaluate(
  loops: device_loops.DeviceLoops,
  traced: eval_loop.TracedEvaluation | xla_groups.GroupProgram,
  iterator: tf.data.Iterator | stacks.GroupStackReader,
  name: str,
  steps: int | None = None,
  beat: Callable[[], None] = lambda: None,
) -> Result:
  """Evaluates the groups of an iterator.

  Args:
    loops: the device loops.
    traced: the trace for the iterator and the name.
    iterator: over groups, see `trainer.inputs.groups`; or over stacks of groups.
    name: the evaluation's name. Its metrics are reset first.
    steps: the most groups to evaluate; None for all.
    beat: called before each call of the device, to tell a watchdog that the evaluation progresses.
  """
  loops.evaluate.host_metrics(name).reset()
  is_stacked = isinstance(traced, xla_groups.GroupProgram)
  run = _evaluate_stacks if is_stacked else _evaluate_groups
  totals = run(loops.evaluate, traced, iterator, name, steps, beat)
  if steps is not None and totals.done < steps:
    logging.warning(
      "The evaluation ended after %d of %d steps: the input has %d examples.",
      totals.done,
      steps,
      totals.examples,
    )
  loops.evaluate.host_metrics(name).warn_of_large_counts()
  if not totals.examples:
    return Result({}, 0)
  values = {
    key: value.numpy().item() if value.shape.rank == 0 else value.numpy()
    for key, value in totals.metrics.items()
  }
  # A mean without a real value is 0, as in the model_fn.
  loss = sum(total / count if count else 0.0 for total, count in totals.loss_sums.tolist())
  return Result({"loss": loss, **values}, totals.examples)


def _evaluate_groups(loop, traced, iterator, name, steps, beat):
  """Evaluates groups that the host hands over one by one."""
  totals = _Totals()
  group = next(iterator, None)
  while group is not None and (steps is None or totals.done < steps):
    beat()
    element, rows = group
    size = tf.nest.flatten(element)[0].shape.as_list()[1]
    counts = rows.numpy()
    if not counts.any():  # A group of padding only: the data ended.
      break
    partial = _partial(counts, size)
    # A group may hold both kinds. The whole batches go first, with empty ones instead of the
    # partial; then each partial batch by itself.
    if partial:
      group, wanted = (element, tf.where(tf.equal(rows, size), rows, 0)), 1
    else:
      wanted = _LOOP if steps is None else min(_LOOP, steps - totals.done)
    if (counts == size).any():
      result = traced.run(iterator, group, wanted)
      totals.add(result, int(result["rows"]))
      totals.done += int(result["steps"])
      group = result["group"]
    else:
      totals.done += 1
      group = next(iterator, None)
    for index in partial:
      batch = tf.nest.map_structure(
        lambda tensor, index=index: tensor[index, : counts[index]], element
      )
      totals.add(loop.evaluate_partial(batch, name), int(counts[index]))
  return totals


def _evaluate_stacks(loop, program, reader, name, steps, beat):
  """Evaluates groups, several in one program."""
  totals = _Totals()
  started = None  # The rows of the groups that the device works on.
  while steps is None or totals.done < steps:
    beat()
    stack = reader.current()
    if stack is None:
      break
    first, size = stack.first, tf.nest.flatten(stack.on_host)[0].shape.as_list()[1]
    wanted = stack.left if steps is None else min(stack.left, steps - totals.done)
    rows = stack.rows[first : first + wanted]
    rows = rows[: _until_partial(rows, size)]
    if not len(rows):  # A group of padding only: the data ended.
      break
    # As above: the whole batches go first, then each partial batch by itself.
    whole = np.where(rows == size, rows, 0)
    if not whole[-1].any():
      whole = whole[:-1]
    if len(whole):
      results = started is not None and program.results()
      program.start(stack, len(whole))
      if started is not None:  # The host counts one program while the device works on the next one.
        _count(totals, loop, program, results, started, name)
      started = whole
    stack.first = first + len(rows)
    totals.done += len(rows)
    if partial := _partial(rows[-1], size):
      if started is not None:
        _count(totals, loop, program, program.results(), started, name)
        started = None
      for core in partial:
        batch = stack.batch(stack.first - 1, core)
        totals.add(loop.evaluate_partial(batch, name), int(rows[-1, core]))
  if started is not None:
    _count(totals, loop, program, program.results(), started, name)
  return totals


def _count(totals, loop, program, results, rows, name):
  result = program.count(results, rows, name, loop.host_metrics(name))
  totals.add(result, int(rows.sum()))


def _partial(rows, size):
  """Returns the cores with a batch that is neither full nor empty."""
  return [core for core, count in enumerate(rows) if 0 < count < size]


def _until_partial(rows, size):
  """How many groups come up to the first one with a partial batch, or before an empty group."""
  for index, of_group in enumerate(rows):
    if not of_group.any():
      return index
    if _partial(of_group, size):
      return index + 1
  return len(rows)
