"""Rewrites a GraphDef: looks up, adds, replaces and removes nodes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


class Graph:
  """A GraphDef to rewrite.

  Args:
    graph_def: the GraphDef; its nodes change.
    inputs: names of the input tensors; they stay.
    outputs: names of the output tensors; they stay.

  Attributes:
    nodes: name → NodeDef.
  """

  def __init__(
    self, graph_def: tf.compat.v1.GraphDef, inputs: Sequence[str], outputs: Sequence[str]
  ) -> None:
    self._graph_def = graph_def
    self._kept = {name.partition(":")[0] for name in (*inputs, *outputs)}
    self.nodes = {node.name: node for node in graph_def.node}
    self.skip_identities()
    self._wrapped = wrap(graph_def)  # Infers shapes, and computes constants.
    self._ranks: dict[str, int] = {}  # Of added nodes.

  def compute_constants(self) -> None:
    """Replaces operations that depend on constants only by their values."""
    known = set()
    for operation in self._wrapped.graph.get_operations():  # Inputs come before their users.
      is_constant = all(tensor.op.name in known for tensor in operation.inputs)
      stateless = not operation.op_def.is_stateful and operation.type not in ("Placeholder", "NoOp")
      if operation.type == "Const" or (stateless and operation.inputs and is_constant):
        known.add(operation.name)
    # Compute only the known tensors that an unknown operation takes.
    wanted = sorted(
      {
        name
        for node in self.nodes.values()
        if node.name not in known
        for name in map(source_of, node.input)
        if operation_of(name) in known and self.nodes[operation_of(name)].op != "Const"
      }
    )
    if not wanted:
      return
    tensors = [self._wrapped.graph.get_tensor_by_name(_tensor(name)) for name in wanted]
    values = self._wrapped.prune([], tensors)()
    for name, value in zip(wanted, values, strict=True):
      self.replace(name, self.add_constant(f"{operation_of(name)}/value", value.numpy()))

  def prune(self) -> tf.compat.v1.GraphDef:
    """Returns the GraphDef of the nodes that the outputs need."""
    needed, waiting = set(), sorted(self._kept)
    while waiting:
      name = waiting.pop()
      if name not in needed:
        needed.add(name)
        waiting.extend(map(operation_of, self.nodes[name].input))
    graph_def = v1.GraphDef(versions=self._graph_def.versions, library=self._graph_def.library)
    graph_def.node.extend(node for name, node in self.nodes.items() if name in needed)
    return graph_def

  def add_node(self, node: tf.compat.v1.NodeDef, rank: int | None = None) -> None:
    """Adds a node.

    Args:
      node: the node.
      rank: the rank of its output, for `rank`; None if unknown.
    """
    self.nodes[node.name] = node
    if rank is not None:
      self._ranks[node.name] = rank

  def add_constant(self, name: str, value: np.ndarray) -> str:
    """Adds a constant, and returns its name.

    Args:
      name: its name; if a node has it, the constant gets a similar one.
      value: its value.
    """
    tensor = tf.make_tensor_proto(value)
    node = v1.NodeDef(name=self.free_name(name), op="Const")
    node.attr["dtype"].type = tensor.dtype
    node.attr["value"].tensor.CopyFrom(tensor)
    self.nodes[node.name] = node
    return node.name

  def free_name(self, name: str) -> str:
    """Returns the name, with underscores added until no node has it."""
    while name in self.nodes:
      name += "_"
    return name

  def value(self, name: str) -> np.ndarray | None:
    """Returns the value of a constant; None for other tensors."""
    node = self.nodes[operation_of(name)]
    return tf.make_ndarray(node.attr["value"].tensor) if node.op == "Const" else None

  def rank(self, name: str) -> int | None:
    """Returns the rank of a tensor; None if it is unknown."""
    operation = operation_of(name)
    if operation in self._ranks:
      return self._ranks[operation]
    try:
      return self._wrapped.graph.get_tensor_by_name(_tensor(source_of(name))).shape.rank
    except KeyError:
      return None

  def is_used_once(self, node: tf.compat.v1.NodeDef) -> bool:
    """Returns whether exactly one node uses a node's outputs, and no output of the graph is one."""
    uses = [
      name for user in self.nodes.values() for name in user.input if operation_of(name) == node.name
    ]
    return len(uses) == 1 and node.name not in self._kept

  def replace(self, name: str, by: str) -> None:
    """Makes all users of the tensor `name` use the tensor `by`."""
    for node in self.nodes.values():
      for place, used in enumerate(node.input):
        if source_of(used) == name and not used.startswith("^"):
          node.input[place] = by

  def skip_identities(self) -> None:
    """Removes Identity nodes and control inputs. No operation here has a side effect."""
    handed = {
      node.name: node.input[0]
      for node in self.nodes.values()
      if node.op == "Identity" and node.name not in self._kept
    }
    for node in self.nodes.values():
      plain = [name for name in node.input if not name.startswith("^")]
      for place, name in enumerate(plain):
        while operation_of(name) in handed:
          name = handed[operation_of(name)]
        plain[place] = name
      del node.input[:]
      node.input.extend(plain)
    for name in handed:
      del self.nodes[name]


def wrap(graph_def: tf.compat.v1.GraphDef) -> Any:
  """Wraps a GraphDef as a WrappedFunction; its `prune` makes functions of its tensors."""
  return v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph_def, name=""), [])


def operation_of(name: str) -> str:
  """Returns the name of the node that an input, also a control input, comes from."""
  return name.lstrip("^").partition(":")[0]


def source_of(name: str) -> str:
  """Returns a tensor's name as a node's input: "a" for "a:0"."""
  return name.removesuffix(":0")


def _tensor(name):
  return name if ":" in name else f"{name}:0"
