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
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.inputs import stacks
from trainer.programs import eval_loop, group_results, xla_program
from trainer.programs import host_metrics as metrics_lib
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind


class GroupStackReader(stacks.GroupStackReader):
  """Reads stacks of groups, the same ones on all hosts."""

  def _next(self):
    stack = super()._next()
    own = None if stack is None else stack.rows.tolist()
    if any(rows != own for rows in self._exchange(own)):
      raise errors.InputError(
        "An input_fn gives other batches on other hosts. In evaluation and prediction each host "
        "makes the batches of the whole set: the batches must not depend on the host."
      )
    return stack


class GroupProgram:
  """A traced program of several groups, for the stacks of one kind of input.

  Args:
    program: the step.Program, traced as one replica of many.
    plan: the plan of the program, see `xla_program.trace`.

  Attributes:
    plan: the traced plan.
    step: the TracedStep of its step.
    bytes_of_group: the bytes of one group's results on one core.

  Raises:
    core_results.TooLarge: the results of so many groups exceed plan.limit_bytes.
    LowerError: XLA cannot compile the program.
  """

  def __init__(self, program: step_lib.Program, plan: plan_lib.Plan) -> None:
    variables: Any = program.store.on_xla
    # Each device gets the results of all devices, unless all devices belong to this process.
    copies = variables.devices.count if variables.devices.is_shared else 1
    limited = dataclasses.replace(plan, limit_bytes=plan.limit_bytes // copies)
    traced = xla_program.trace(program, limited)
    self.plan = plan
    self.step = traced.step
    self.bytes_of_group = traced.kept.bytes_of_group
    self._kept = traced.kept
    self._counting: dict[str, Any] = {}  # by the evaluation's name
    self._variables = variables
    self._program = xla_program.OnDevices(traced, program.store)

  def put(self, elements: Sequence) -> Any:
    """Puts the elements of this process's cores on their devices."""
    own = [elements[number] for number in self._variables.devices.numbers]
    return self._program.put(own)

  def read(self, dataset: tf.data.Dataset) -> GroupStackReader:
    """Returns a reader of a dataset's groups in stacks."""
    stacked = stacks.stack_groups(dataset, self.plan.length)
    return GroupStackReader(stacked, self.put, self._variables.devices.exchange)

  def start(self, stack: stacks.GroupStack, count: int) -> None:
    """Starts on the next groups of a stack. The devices work on them after this has returned."""
    self._program.give_variables()
    self._program.start(stack, count)
    stack.first += count

  def results(self) -> Any:
    """Returns the groups' results, in the structure of one group's; waits for them.

    Each tensor is [groups, ...], the concatenation of the cores' results along the axis of the
    examples; scalars become [groups, cores]. The results of groups that did not run are undefined.
    """
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
      self.start(stack, count)
      # Now, not when the caller asks for more: another prediction may use the same variables then.
      results = group_results.on_host(self.results())
      for index in range(first, first + count):
        yield group_results.without_padding(
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
      A dict of "loss_sums" (as eval_loop.TracedEvaluation.run) and "metrics" (those so far).
    """
    # Each evaluation has its own metric variables, so its own function.
    if name not in self._counting:
      self._counting[name] = tf.function(self._counted(host_metrics), autograph=False)
    # Pad the rows to the program's length: one trace then serves any number of groups.
    missing = np.zeros([self.plan.length - len(rows), rows.shape[1]], rows.dtype)
    return self._counting[name](
      results, tf.constant(np.concatenate([rows, missing])), tf.constant(len(rows))
    )

  def _counted(self, host_metrics):
    def count(results, rows, groups):
      found = []

      def body(index, sums):
        losses, tensors = tf.nest.map_structure(lambda tensor: tensor[index], results)
        readers = group_results.add_to_metrics(
          host_metrics, self.step.metric_fn, tensors, rows[index] > 0
        )
        found.append(readers)
        return index + 1, sums + group_results.sums_of_losses(losses, rows[index])

      sums = tf.zeros([len(results[0]), 2], tf.float64)
      _, sums = tf.while_loop(lambda index, _: index < groups, body, [tf.constant(0), sums])
      return dict(loss_sums=sums, metrics=metrics_lib.read(found[-1]))

    return count


class EvalLoop(eval_loop.EvalLoop):
  """The evaluations of a Program on XLA devices."""

  def __init__(self, program: step_lib.Program) -> None:
    on_xla: Any = program.store.on_xla
    super().__init__(program, on_xla.devices.count)
    self._of_sizes: dict[Any, GroupProgram] = {}

  def evaluate_partial(self, element: Any, name: str) -> dict[str, Any]:
    """Evaluates one batch smaller than the others; see eval_loop.EvalLoop."""
    spec = tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), element)
    key = tf.data.IteratorSpec(spec)
    if key not in self._of_sizes:
      plan = plan_lib.Plan(Kind.EVAL, spec, self._replicas)
      self._of_sizes[key] = GroupProgram(self._program, plan)
    program = self._of_sizes[key]
    # Every device computes the same partial batch. Only device 0's rows count.
    stacked = tf.nest.map_structure(lambda leaf: leaf[tf.newaxis], element)
    elements = (stacked,) * self._replicas
    rows = np.zeros([1, self._replicas], np.int64)
    rows[0, 0] = tf.nest.flatten(element)[0].shape[0]
    program.start(stacks.GroupStack(program.put(elements), 1, rows=rows, on_host=elements), 1)
    return program.count(program.results(), rows, name, self.host_metrics(name))
