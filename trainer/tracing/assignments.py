"""Changes of variables that a model_fn asks for, and that must not happen.

In a tf.function every assignment runs, whether a train_op asks for it or not. A model_fn may make
its train_op in every mode, though, and an evaluation must change nothing: not by an optimizer, nor
by `assign_add`, by an ExponentialMovingAverage or under tf.cond. All of them come to operations of
a few kinds, which are left out where they are made:

    with assignments.leave_out(lambda handle: handle is variable.handle):
      variable.assign_add(1.0)  # does nothing; read after it, the variable has its old value
"""

import contextlib
import contextvars
import itertools
import re
from collections.abc import Callable

import tensorflow as tf

from trainer import errors
from trainer.internals import patches, tensorflow_internals

# These change the variable that is their first input, and have no output.
_CHANGES = re.compile(
  r"Assign(Add|Sub)?VariableOp|AssignVariableXlaConcatND|Resource(Sparse)?Apply\w+"
  r"|ResourceScatter\w+|ResourceStridedSliceAssign|RngSkip"
)
# Gives the state of a tf.random.Generator, and moves it on.
_DRAW = "RngReadAndSkip"
# These have an output that is not to be had without the change.
_INDISPENSABLE = re.compile(
  r"ResourceCountUpTo|Stateful(Uniform|StandardNormal|TruncatedNormal|RandomBinomial)\w*"
)

_DRAWS_APART = 1 << 32  # more than one draw moves the state of a generator on


class _Rule:
  """Which changes are left out of a trace."""

  def __init__(self, is_left_out):
    self.is_left_out = is_left_out
    self.draws = itertools.count()  # those of generators whose state stays as it is
    self.trace = object()


_rule = contextvars.ContextVar("which changes of variables are left out", default=None)


def leave_out(
  is_left_out: Callable[[tf.Tensor | None], bool],
) -> contextlib.AbstractContextManager[None]:
  """Inside, in graphs, those changes of variables are left out for which is_left_out is true.

  Args:
    is_left_out: function of a variable's handle as it is outside of all graphs, or of None where a
      function changes a variable that it does not know but as an argument.
  """
  return patches.set_context(_rule, _Rule(is_left_out))


@patches.replaces(*tensorflow_internals.CREATE_OPERATION)
def _create_operation(original, graph, kind, inputs, *args, **kwargs):
  rule = _rule.get()
  if rule is None or not changes_a_variable(kind) or inputs[0].dtype != tf.resource:
    return original(graph, kind, inputs, *args, **kwargs)
  if not rule.is_left_out(_outermost(inputs[0])):
    return original(graph, kind, inputs, *args, **kwargs)
  if kind == _DRAW:
    # As random numbers of Keras, those of an evaluation are the same in each of its batches.
    state = tf.raw_ops.ReadVariableOp(resource=inputs[0], dtype=tf.int64)
    return tf.concat([state[:1] + next(rule.draws) * _DRAWS_APART, state[1:]], 0).op
  if _INDISPENSABLE.fullmatch(kind):
    raise errors.ModelFnError(
      f"The operation {kind} changes a variable, which must not be here, and its output cannot be "
      "had without: make it in training alone (if mode == ModeKeys.TRAIN)."
    )
  return tf.no_op()


@patches.replaces(*tensorflow_internals.FUNCTION_CONTEXT)
def _make_function_context(original, *args, **kwargs):
  """A tf.function that a training has traced must not be used again in an evaluation."""
  made, rule = original(*args, **kwargs), _rule.get()
  return made if rule is None else made._replace(context=(made.context, rule.trace))


def changes_a_variable(kind: str) -> bool:
  """Whether operations of a kind ("AssignVariableOp") change the variable that they are given."""
  return bool(_CHANGES.fullmatch(kind) or kind == _DRAW or _INDISPENSABLE.fullmatch(kind))


def _outermost(handle):
  """The handle outside of all graphs that a handle in a graph stands for; None if it is not
  known.
  """
  while not hasattr(handle, "numpy"):
    if handle.op.type == "TPUReplicatedInput":
      handle = handle.op.inputs[0]
      continue
    captured = getattr(handle.graph, "captures", ())
    handle = next((outer for outer, inner in captured if inner is handle), None)
    if handle is None:
      return None
  return handle
