"""Evaluation and prediction on XLA devices: programs of several groups, which PJRT runs.

They are as those of `multi_group`. A partial batch is a program of its own, of its own size: each
device computes it, and the first one's result counts.

Several hosts share the groups: each makes all batches, so that the order of the examples is that of
one host, and computes those of its own devices. All hosts get the results of all devices.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.inputs import stacks
from trainer.pjrt import program as pjrt_program
from trainer.programs import eval_loop, multi_group, xla_program
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind


class GroupStackReader(stacks.GroupStackReader):
  """Reads stacks of groups, the same ones on all hosts.

  Args:
    dataset: what `stacks.stack_groups` returns.
    put: function of a stack's elements that puts them on the devices.
    exchange: see hosts.Hosts.
  """

  def __init__(
    self,
    dataset: tf.data.Dataset,
    put: Callable[[Sequence], Any],
    exchange: Callable[[Any], list[Any]],
  ) -> None:
    super().__init__(dataset, put)
    self._exchange = exchange

  def _next(self):
    stack = super()._next()
    own = None if stack is None else stack.rows.tolist()
    if any(rows != own for rows in self._exchange(own)):
      raise errors.InputError(
        "An input_fn gives other batches on other hosts. In evaluation and prediction each host "
        "makes the batches of the whole set: they must not depend on the host."
      )
    return stack


class GroupProgram(multi_group.GroupProgram):
  """A program of several groups, for XLA devices.

  Args:
    program: the step.Program, which is traced as one replica of many.
    plan: of the program, see `xla_program.trace`.

  Raises:
    core_results.TooLarge: see multi_group.GroupProgram.
    LowerError: XLA cannot compile the program.
  """

  def __init__(self, program: step_lib.Program, plan: plan_lib.Plan) -> None:
    variables: Any = program.store.on_xla
    # A device gets the results of all of them, where not all are of this process.
    copies = variables.devices.count if variables.devices.is_shared else 1
    limited = dataclasses.replace(plan, limit_bytes=plan.limit_bytes // copies)
    traced = xla_program.trace(program, limited)
    super().__init__(program, traced)
    self.plan = plan
    self._kept = traced.kept
    self._variables = variables
    self._made = xla_program.of(traced, program.store, variables.devices.count)
    self._executable: Any = None

  def compile(self) -> Any:
    """Returns the execution.Executable, which is made at the first call."""
    if self._executable is None:
      self._executable = self._variables.compile(self._made.program, self.plan.kind)
    return self._executable

  def put(self, elements: Sequence) -> Any:
    """Puts the elements of this process's cores on their devices."""
    own = [elements[number] for number in self._variables.devices.numbers]
    return xla_program.put(self.compile(), self._made.inputs, own)

  def read(self, dataset: tf.data.Dataset) -> GroupStackReader:
    """Returns what reads the groups of a dataset in stacks."""
    stacked = stacks.stack_groups(dataset, self.plan.length)
    return GroupStackReader(stacked, self.put, self._variables.devices.exchange)

  def start(self, stack: stacks.GroupStack, count: int) -> None:
    """Starts on the next groups of a stack. The devices work on them after this has returned."""
    self._variables.give(self._made.program.variables)
    places = {pjrt_program.FIRST: np.int32(stack.first), pjrt_program.COUNT: np.int32(count)}
    self._executable.run(self._variables.on_devices, stack.elements, places)
    stack.first += count

  def results(self) -> Any:
    """Returns what the groups have given, see CoreResults.read; waits for them."""
    like = self._kept.variables()
    each = self._variables.read_each(tf.nest.flatten(like))
    # [cores, groups, ...] of each.
    of_cores = [values.T if values.ndim == 2 else np.concatenate(values, 1) for values in each]
    return tf.nest.pack_sequence_as(like, [tf.constant(values) for values in of_cores])


class EvalLoop(eval_loop.EvalLoop):
  """The evaluations of a Program on XLA devices.

  Args:
    program: the program.
  """

  def __init__(self, program: step_lib.Program) -> None:
    on_xla: Any = program.store.on_xla
    super().__init__(program, on_xla.devices.count)
    self._of_sizes: dict[Any, GroupProgram] = {}

  def evaluate_partial(self, element: Any, name: str) -> dict[str, Any]:
    """Evaluates one batch that is smaller than the others; see eval_loop.EvalLoop."""
    spec = tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), element)
    key = tf.data.IteratorSpec(spec)
    if key not in self._of_sizes:
      plan = plan_lib.Plan(Kind.EVAL, spec, self._replicas)
      self._of_sizes[key] = GroupProgram(self._program, plan)
    program = self._of_sizes[key]
    stacked = tf.nest.map_structure(lambda leaf: leaf[tf.newaxis], element)
    elements = (stacked,) * self._replicas
    rows = np.zeros([1, self._replicas], np.int64)
    rows[0, 0] = tf.nest.flatten(element)[0].shape[0]
    program.start(stacks.GroupStack(program.put(elements), 1, rows=rows, on_host=elements), 1)
    return program.count(program.results(), rows, name, self.host_metrics(name))
