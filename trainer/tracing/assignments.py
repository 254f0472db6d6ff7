"""Leaves assignments to variables out of a trace.

A model_fn may create its train_op in every mode. In a graph that does no harm, since nobody runs
the op. In a tf.function every assignment runs, and an evaluation must not change the model: not by
an optimizer, by `assign_add`, by an ExponentialMovingAverage or inside tf.cond. All of these create
operations of a few types. This module leaves such an operation out at its creation:

    with assignments.leave_out(lambda handle: handle is variable.handle):
      variable.assign_add(1.0)  # does nothing; read after it, the variable has its old value
"""

import contextlib
import contextvars
import dataclasses
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.internals import patches, tensorflow_internals

# Operations that change the variable in their first input, and have no output.
_CHANGES = re.compile(
  r"Assign(Add|Sub)?VariableOp|AssignVariableXlaConcatND|Resource(Sparse)?Apply\w+"
  r"|ResourceScatter\w+|ResourceStridedSliceAssign|RngSkip"
)
# Returns the state of a tf.random.Generator, and advances it.
_DRAW = "RngReadAndSkip"
# Operations without an output unless they change the variable: an error.
_INDISPENSABLE = re.compile(
  r"ResourceCountUpTo|Stateful(Uniform|StandardNormal|TruncatedNormal|RandomBinomial)\w*"
)

# Distance between the states of two draws: larger than one draw advances a generator.
_DRAWS_APART = 1 << 32


@dataclasses.dataclass(frozen=True)
class LeftOut:
  """An assignment missing from the graph.

  Attributes:
    kind: its type of operation.
    inputs: its inputs, the variable's handle first.
    attributes: by name, tf.compat.v1.AttrValues.
  """

  kind: str
  inputs: tuple[tf.Tensor, ...]
  attributes: Mapping[str, Any]

  def node_def(self, name: str) -> Any:
    """Returns it as a tf.compat.v1.NodeDef of this name."""
    inputs = [name_of_input(tensor) for tensor in self.inputs]
    return tf.compat.v1.NodeDef(name=name, op=self.kind, input=inputs, attr=self.attributes)


# Attribute of a graph: name of the replacing operation → LeftOut. The inputs keep their graph
# alive, so a table outside the graphs would keep all graphs alive.
_LEFT_OUT = "_octet_assignments_left_out"


class _Rule:
  """Decides which assignments a trace leaves out."""

  def __init__(self, is_left_out, note):
    self.is_left_out = is_left_out
    self.note = note
    self.draws = itertools.count()  # counts draws from generators whose state must not advance
    self.trace = object()  # identifies this trace in the cache keys of tf.functions


_rule = contextvars.ContextVar("which changes of variables are left out", default=None)


def leave_out(
  is_left_out: Callable[[tf.Tensor | None], bool],
  note: Callable[[tf.Operation, tf.Tensor | None], None] = lambda operation, handle: None,
) -> contextlib.AbstractContextManager[None]:
  """Returns a context that leaves assignments out of the graphs traced in it.

  Args:
    is_left_out: called with the eager handle of the variable that an operation would change;
      returns whether to leave the operation out. The handle is None if unknown: a function got the
      variable as an argument.
    note: called with each operation that stays, and with the same handle.
  """
  return patches.set_context(_rule, _Rule(is_left_out, note))


def allow() -> contextlib.AbstractContextManager[None]:
  """Lets every assignment happen while the context is open, inside of `leave_out` too."""
  return patches.set_context(_rule, None)


@patches.replaces(*tensorflow_internals.CREATE_OPERATION, inside=_rule)
def _create_operation(original, graph, kind, inputs, *args, **kwargs):
  rule = _rule.get()
  if not changes_a_variable(kind) or inputs[0].dtype != tf.resource:
    return original(graph, kind, inputs, *args, **kwargs)
  handle = eager_handle(inputs[0])
  if not rule.is_left_out(handle):
    operation = original(graph, kind, inputs, *args, **kwargs)
    rule.note(operation, handle)
    return operation
  if kind == _DRAW:
    # The generator's state does not change, so every batch of an evaluation draws the same numbers,
    # as Keras's random layers do. Each draw of a trace gets its own state.
    state = tf.raw_ops.ReadVariableOp(resource=inputs[0], dtype=tf.int64)
    return tf.concat([state[:1] + next(rule.draws) * _DRAWS_APART, state[1:]], 0).op
  if _INDISPENSABLE.fullmatch(kind):
    raise errors.ModelFnError(
      f"The operation {kind} changes a variable. In this mode no variable may change, and the "
      "operation has no output without the change: create it in training only (if mode == "
      "ModeKeys.TRAIN)."
    )
  made = tf.no_op()
  if not hasattr(graph, _LEFT_OUT):
    setattr(graph, _LEFT_OUT, {})
  getattr(graph, _LEFT_OUT)[made.name] = LeftOut(kind, tuple(inputs), kwargs.get("attrs") or {})
  return made


@patches.replaces(*tensorflow_internals.FUNCTION_CONTEXT, inside=_rule)
def _make_function_context(original, *args, **kwargs):
  """Keeps an evaluation from reusing the trace of a tf.function that training has traced.

  That trace contains the assignments.
  """
  made = original(*args, **kwargs)
  return made._replace(context=(made.context, _rule.get().trace))


def changes_a_variable(kind: str) -> bool:
  """Returns whether operations of a type, such as "AssignVariableOp", change their variable."""
  return bool(_CHANGES.fullmatch(kind) or kind == _DRAW or _INDISPENSABLE.fullmatch(kind))


def left_out(operation: tf.Operation) -> LeftOut | None:
  """Returns the assignment that an operation replaces, or None."""
  return getattr(operation.graph, _LEFT_OUT, {}).get(operation.name)


def inputs(operation: tf.Operation) -> Sequence[tf.Tensor]:
  """Returns an operation's inputs; those of the assignment that it replaces, if it does."""
  replaced = left_out(operation)
  return operation.inputs if replaced is None else replaced.inputs


def name_of_input(tensor: tf.Tensor) -> str:
  """Returns a tensor's name in LeftOut.node_def: an eager tensor has no name of its own."""
  return f"eager_{id(tensor)}:0" if hasattr(tensor, "numpy") else tensor.name


def eager_handle(handle: tf.Tensor) -> tf.Tensor | None:
  """Follows a captured handle out of nested graphs to the eager handle; None if it is unknown."""
  while not hasattr(handle, "numpy"):
    captured = getattr(handle.graph, "captures", ())
    handle = next((outer for outer, inner in captured if inner is handle), None)
    if handle is None:
      return None
  return handle
