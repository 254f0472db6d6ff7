"""Copies operations of one graph into another graph."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.tracing import assignments, fetched_operations

v1 = tf.compat.v1


def copy(
  operations: Sequence[tf.Operation], given: Mapping[str, tf.Tensor], wanted: Sequence[str]
) -> list[Any]:
  """Adds operations of a graph to the default graph.

  If an evaluation left out an assignment, the copy has the assignment as the program made it.

  Args:
    operations: operations of one graph.
    given: name of a tensor there → the tensor to use instead. Must have every input that the
      operations do not compute themselves.
    wanted: names of tensors to return.
  """
  copied = {operation.name for operation in operations}
  definition = v1.GraphDef()
  for operation in operations:
    left_out = assignments.left_out(operation)
    node = definition.node.add()
    node.CopyFrom(operation.node_def if left_out is None else left_out.node_def(operation.name))
    # Colocation and devices name operations and devices of the old graph only.
    node.attr.pop("_class", None)
    node.device = ""
    # Not operation.control_inputs: TensorFlow adds automatic ones, which order all stateful
    # operations of the step.
    before = fetched_operations.control_inputs(operation)
    kept = [name for name in node.input if not name.startswith("^")]
    node.ClearField("input")
    node.input.extend([*kept, *(f"^{one.name}" for one in before if one.name in copied)])
  _add_functions(definition, operations)
  # import_graph_def raises an error for a given input that no operation uses.
  used = {name if ":" in name else f"{name}:0" for node in definition.node for name in node.input}
  here = v1.get_default_graph()
  inputs = {
    name: here.capture(tensor) for name, tensor in given.items() if name in used or name in wanted
  }
  return tf.graph_util.import_graph_def(definition, inputs, list(wanted), name="")


def _add_functions(definition: Any, operations: Sequence[tf.Operation]) -> None:
  """Adds the functions that operations call.

  It must not add the function of a loop around the copy: TensorFlow crashes.
  """
  waiting = _called(definition.node)
  if not waiting:
    return
  library = operations[0].graph.as_graph_def().library
  functions = {one.signature.name: one for one in library.function}
  added: set[str] = set()
  while waiting:
    name = waiting.pop()
    if name in functions and name not in added:
      added.add(name)
      definition.library.function.add().CopyFrom(functions[name])
      waiting |= _called(functions[name].node_def)
  definition.library.gradient.extend(one for one in library.gradient if one.function_name in added)


def _called(nodes: Any) -> set[str]:
  """Returns the names of the functions that nodes call."""
  values = [value for node in nodes for value in node.attr.values()]
  return {value.func.name for value in values if value.HasField("func")} | {
    function.name for value in values for function in value.list.func
  }
