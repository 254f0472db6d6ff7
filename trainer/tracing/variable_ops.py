"""`variable.op.name` in a model_fn, as programs for graphs ask for it.

They choose by it what to decay or to restore, and look it up in the names of a checkpoint. A
variable that is made eagerly, as all of a VariableStore are, has no operation that made it.
"""

import contextlib
import contextvars
import dataclasses
from typing import Any

from trainer.internals import patches, tensorflow_internals

_are_named = contextvars.ContextVar("variables have operations", default=False)


@dataclasses.dataclass(frozen=True)
class VariableOp:
  """What programs read of the operation of a variable.

  Attributes:
    name: the variable's name, without the ":0" of `variable.name`; the same on all replicas.
    type: of variables in graphs of TensorFlow 2.
    graph, traceback: there is none; TensorFlow's strategies hand them on.
  """

  name: str
  type: str = "VarHandleOp"
  graph: Any = None
  traceback: Any = None


def provide() -> contextlib.AbstractContextManager[None]:
  """Inside, each variable has a `VariableOp`, if it has no operation in a graph."""
  return patches.set_context(_are_named, True)


@patches.replaces(*tensorflow_internals.VARIABLE_OP)
def _op(original, variable):
  if not _are_named.get():
    return original(variable)
  try:
    return original(variable)
  except AttributeError:  # of the eager tensor that is its handle
    return VariableOp(variable.name.partition(":")[0])


@patches.replaces(*tensorflow_internals.DISTRIBUTED_VARIABLE_OP)
def _op_of_all(original, variable):
  if not _are_named.get():
    return original(variable)
  return tensorflow_internals.primary(variable).op
