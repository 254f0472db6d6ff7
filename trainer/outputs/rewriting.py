"""A GraphDef that is being rewritten: its nodes by name, and which values are known."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


class Graph:
  """A GraphDef that is being rewritten.

  Args:
    graph_def: the GraphDef; its nodes are changed.
    inputs, outputs: names of tensors, which stay.

  Attributes:
    nodes: dict of name → NodeDef.
  """

  def __init__(
    self, graph_def: tf.compat.v1.GraphDef, inputs: Sequence[str], outputs: Sequence[str]
  ):
    self._graph_def = graph_def
    self._kept = {name.partition(":")[0] for name in (*inputs, *outputs)}
    self.nodes = {node.name: node for node in graph_def.node}
    self.skip_identities()
    self._wrapped = wrap(graph_def)  # which knows shapes, and computes what is constant
    self._ranks = {}  # of what was added

  def compute_constants(self) -> None:
    """Replaces what hangs on constants alone by its value."""
    known = set()
    for operation in self._wrapped.graph.get_operations():  # inputs come before what uses them
      hangs_on_constants = all(tensor.op.name in known for tensor in operation.inputs)
      stateless = not operation.op_def.is_stateful and operation.type not in ("Placeholder", "NoOp")
      if operation.type == "Const" or (stateless and operation.inputs and hangs_on_constants):
        known.add(operation.name)
    # The last ones of which everything is known: those that something unknown takes.
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
    """The GraphDef of what the outputs need."""
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
    """Adds a node; the rank of its output is asked for where something is folded into it."""
    self.nodes[node.name] = node
    if rank is not None:
      self._ranks[node.name] = rank

  def add_constant(self, name: str, value: np.ndarray) -> str:
    """Adds a constant, whose name this is, or one that is still free; returns that."""
    tensor = tf.make_tensor_proto(value)
    node = v1.NodeDef(name=self.free_name(name), op="Const")
    node.attr["dtype"].type = tensor.dtype
    node.attr["value"].tensor.CopyFrom(tensor)
    self.nodes[node.name] = node
    return node.name

  def free_name(self, name: str) -> str:
    """The name, or one like it that no node has."""
    while name in self.nodes:
      name += "_"
    return name

  def value(self, name: str) -> np.ndarray | None:
    """The value of a constant; None of other tensors."""
    node = self.nodes[operation_of(name)]
    return tf.make_ndarray(node.attr["value"].tensor) if node.op == "Const" else None

  def rank(self, name: str) -> int | None:
    """How many axes a tensor has; None where that is not known."""
    operation = operation_of(name)
    if operation in self._ranks:
      return self._ranks[operation]
    try:
      return self._wrapped.graph.get_tensor_by_name(_tensor(source_of(name))).shape.rank
    except KeyError:
      return None

  def is_used_once(self, node: tf.compat.v1.NodeDef) -> bool:
    """Whether one node alone takes what this one gives."""
    uses = [
      name for user in self.nodes.values() for name in user.input if operation_of(name) == node.name
    ]
    return len(uses) == 1 and node.name not in self._kept

  def replace(self, name: str, by: str) -> None:
    """Whoever takes a tensor takes another."""
    for node in self.nodes.values():
      for place, used in enumerate(node.input):
        if source_of(used) == name and not used.startswith("^"):
          node.input[place] = by

  def skip_identities(self) -> None:
    """Whoever takes what is handed on takes it where it comes from; orders of execution are
    dropped, since nothing here has an effect.
    """
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


def wrap(graph_def: tf.compat.v1.GraphDef) -> Callable:
  """A WrappedFunction of a GraphDef, from which functions of its tensors can be cut out."""
  return v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph_def, name=""), [])


def operation_of(name: str) -> str:
  """The name of the node that a tensor, or an order of execution, comes from."""
  return name.lstrip("^").partition(":")[0]


def source_of(name: str) -> str:
  """A tensor's name as nodes have it, "a" for "a:0"."""
  return name.removesuffix(":0")


def _tensor(name):
  return name if ":" in name else f"{name}:0"
