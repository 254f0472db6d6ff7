"""Evaluation and prediction on XLA devices: one program has many groups, and PJRT runs it.

The host sends the input of several groups in one stack (`trainer.inputs.stacks`) and starts the
program. The groups' results stay in variables of the devices (`core_results`). The host reads them
once per program, and then counts them in the metrics, group by group: a metric_fn may be any
TensorFlow program, and gets the same tensors in the same order as on other devices.

A partial batch has a program of its own size: each device computes it, and Octet uses the first
device's result.

Several hosts share the groups: each makes all batches, in the order of a single host, and computes
the batches of its own devices. All hosts get the results of all devices.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.inputs import stacks
from trainer.programs import eval_loop, group_results, xla_program
from trainer.programs import host_metrics as metrics_lib
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind


class GroupProgram:
  """A traced program of several groups, for the stacks of one kind of input.

  Args:
    program: the step.Program, traced as one replica of many.
    plan: the plan of the program, see `xla_program.trace_longest`.

  Attributes:
    plan: the traced plan, perhaps of fewer groups.
    step: the TracedStep of its step.
    cores: the number of batches in a group.

  Raises:
    LowerError: XLA cannot compile the program.
  """

  def __init__(self, program: step_lib.Program, plan: plan_lib.Plan) -> None:
    variables: Any = program.store.on_xla
    # Each device gets the results of all devices, unless all devices belong to this process.
    copies = variables.devices.count if variables.devices.is_shared else 1
    limited = dataclasses.replace(plan, limit_bytes=plan.limit_bytes // copies)
    traced = xla_program.trace_longest(program, limited, variables.devices.platform)
    self.plan = traced.plan
    self.step = traced.step
    self.cores = variables.devices.count
    self._kept = traced.kept
    self._variables = variables
    self._program = xla_program.OnDevices(traced, program.store)
    self._unread: Callable[[], Any] | None = None

  def put(self, elements: Sequence) -> Any:
    """Puts the elements of this process's cores on their devices."""
    own = [elements[number] for number in self._variables.devices.numbers]
    return self._program.put(own)

  def read(self, dataset: tf.data.Dataset) -> stacks.GroupStackReader:
    """Returns a reader of a dataset's groups in stacks."""
    stacked = stacks.stack_groups(dataset, self.plan.length)
    return stacks.GroupStackReader(stacked, self.put, self._variables.devices.exchange)

  def start(self, stack: stacks.Stack, count: int) -> Callable[[], Any]:
    """Starts on the next groups of a stack.

    Returns:
      A function that waits for the groups and returns their results, in the structure of one
      group's. Each tensor is [groups, ...], the concatenation of the cores' results along the axis
      of the examples; scalars become [groups, cores]. The results of groups that did not run are
      undefined.
    """
    self._program.give_variables()
    if self._unread is not None:
      self._unread()  # The next results take the memory of these.
    self._program.start(stack, count)
    stack.first += count
    self._unread = read = functools.cache(self._results)
    return read

  def _results(self):
    self._unread = None
    like = self._kept.variables()
    each = self._variables.read_each(tf.nest.flatten(like))
    # [cores, groups, ...] of each.
    of_cores = [values.T if values.ndim == 2 else np.concatenate(values, 1) for values in each]
    return tf.nest.pack_sequence_as(like, [tf.constant(values) for values in of_cores])

  def run(
    self, reader: stacks.GroupStackReader, groups: int | None = None, with_examples: bool = False
  ) -> Iterator[tuple[Any, Any]]:
    """Predicts for the groups of a reader's stacks, a program at a time.

    See predict_loop.TracedPrediction.run.
    """
    del groups  # each stack says how many it has
    while (stack := reader.current()) is not None:
      first, count = stack.first, stack.left
      # Now, not when the caller asks for more: another prediction may use the same variables then.
      results = group_results.on_host(self.start(stack, count)())
      for index in range(first, first + count):
        yield group_results.without_padding(
          tf.nest.map_structure(lambda array, place=index - first: array[place], results),
          stack.rows[index],
          stack.examples(index) if with_examples else None,
        )


class XlaEvaluation(eval_loop.Evaluation):
  """An evaluation on XLA devices.

  Args:
    program: the GroupProgram of the input.
    metrics: the metrics of the name.
    program_of: returns the GroupProgram of a plan, for partial batches.
  """

  def __init__(
    self,
    program: GroupProgram,
    metrics: metrics_lib.HostMetrics,
    program_of: Callable[[plan_lib.Plan], GroupProgram],
  ) -> None:
    self.metrics = metrics
    self.step = program.step
    self._program = program
    self._program_of = program_of
    self._add = tf.function(self._added, autograph=False)

  def read(self, dataset: tf.data.Dataset) -> stacks.GroupStackReader:
    """See Evaluation.read."""
    return self._program.read(dataset)

  def start(self, reader: stacks.GroupStackReader, most: int) -> eval_loop.Part | None:
    """See Evaluation.start."""
    stack = reader.current()
    if stack is None:
      return None
    first, size = stack.first, tf.nest.flatten(stack.on_host)[0].shape.as_list()[1]
    rows = stack.rows[first : first + min(stack.left, most)]
    rows = rows[: _until_partial(rows, size)]
    if not len(rows):  # A group of padding only: the data ended.
      return None
    # A group may hold both kinds. Here, empty batches replace the partial ones.
    whole = np.where(rows == size, rows, 0)
    if not whole[-1].any():
      whole = whole[:-1]
    count = None
    if len(whole):
      read = self._program.start(stack, len(whole))
      count = lambda: self._count(self._program, read(), whole)
    stack.first = first + len(rows)
    cores = eval_loop.partial_cores(rows[-1], size)
    batches = [stack.batch(stack.first - 1, core, rows[-1, core]) for core in cores]
    return eval_loop.Part(len(rows), int(whole.sum()), count, batches)

  def evaluate_partial(self, batch: Any) -> dict[str, Any]:
    """See Evaluation.evaluate_partial."""
    spec = tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), batch)
    program = self._program_of(plan_lib.Plan(Kind.EVAL, spec))
    # Every device computes the same partial batch. Only device 0's rows count.
    stacked = tf.nest.map_structure(lambda leaf: leaf[tf.newaxis], batch)
    elements = (stacked,) * program.cores
    rows = np.zeros([1, program.cores], np.int64)
    rows[0, 0] = tf.nest.flatten(batch)[0].shape[0]
    read = program.start(stacks.Stack(program.put(elements), 1, elements), 1)
    return self._count(program, read(), rows)

  def _count(self, program, results, rows):
    """Counts groups in the metrics.

    Args:
      program: the GroupProgram.
      results: of its groups.
      rows: int64 [groups, cores]; how many examples of each batch count.
    """
    # Pad the rows to the program's length: one trace then serves any number of groups.
    missing = np.zeros([program.plan.length - len(rows), rows.shape[1]], rows.dtype)
    rows, groups = tf.constant(np.concatenate([rows, missing])), tf.constant(len(rows))
    return self._add(program.step.metric_fn, results, rows, groups)

  def _added(self, metric_fn, results, rows, groups):
    found = []

    def body(index, sums):
      losses, tensors = tf.nest.map_structure(lambda tensor: tensor[index], results)
      counts = rows[index] > 0
      found.append(group_results.add_to_metrics(self.metrics, metric_fn, tensors, counts))
      return index + 1, sums + group_results.sums_of_losses(losses, rows[index])

    sums = tf.zeros([len(results[0]), 2], tf.float64)
    _, sums = tf.while_loop(lambda index, _: index < groups, body, [tf.constant(0), sums])
    return dict(loss_sums=sums, metrics=metrics_lib.read(found[-1]))


def _until_partial(rows, size):
  """How many groups come up to the first one with a partial batch, or before an empty group."""
  for index, of_group in enumerate(rows):
    if not of_group.any():
      return index
    if eval_loop.partial_cores(of_group, size):
      return index + 1
  return len(rows)
