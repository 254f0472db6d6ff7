"""Makes `variable.op.name` work in a model_fn.

Programs for TF1 read it to choose the variables to decay or to restore, and to look them up in a
checkpoint. A VariableStore creates its variables eagerly, and such a variable has no operation.
"""

import contextlib
import contextvars
import dataclasses
from typing import Any

from trainer.internals import patches, tensorflow_internals

_are_named = contextvars.ContextVar("variables have operations", default=False)


@dataclasses.dataclass(frozen=True)
class VariableOp:
  """Stands in for the operation that creates a variable in a graph.

  Attributes:
    name: the variable's name without the ":0" of `variable.name`. The same on all replicas.
    type: the operation type of a TF2 variable in a graph.
    graph: always None. TensorFlow's strategies read it.
    traceback: always None. TensorFlow's strategies read it.
  """

  name: str
  type: str = "VarHandleOp"
  graph: Any = None
  traceback: Any = None


def provide() -> contextlib.AbstractContextManager[None]:
  """Returns a context in which `variable.op` is a VariableOp if the variable has no operation."""
  return patches.set_context(_are_named, True)


@patches.replaces(*tensorflow_internals.VARIABLE_OP, inside=_are_named)
def _op(original, variable):
  try:
    return original(variable)
  except AttributeError:  # the handle is an eager tensor, which has no `op`
    return VariableOp(variable.name.partition(":")[0])


@patches.replaces(*tensorflow_internals.DISTRIBUTED_VARIABLE_OP, inside=_are_named)
def _op_of_all(original, variable):
  return tensorflow_internals.primary(variable).op
