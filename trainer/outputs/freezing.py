"""A graph for inference alone: variables are constants, what follows from constants is computed,
and scales and shifts (batch norm) are part of the convolution or the dense layer beside them.

    frozen = freeze(tf.saved_model.load(path).signatures["serving_default"])
    frozen(image=batch)["probabilities"]

A scale and a shift by constants, as batch norm is in inference, `x * s + b`:

    after a convolution or matrix product       its weights times s, and b as its bias
    before one that pads nothing, or a matrix   its weights times s, and the weights' sum with b as
    product                                     its bias
    before one that pads with zeros             its weights times s, and x + b / s before it, since
                                                what is padded is 0 after the shift and not before

In exact arithmetic all of these are the same; in float32 they differ by rounding.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from trainer.internals import tensorflow_internals

v1 = tf.compat.v1

_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
_WEIGHTED = (*_CONVOLUTIONS, "MatMul")
_LARGEST_SHIFT = 1e4  # b / s where scales are this small are left alone, for the sake of rounding


@dataclasses.dataclass(frozen=True)
class Frozen:
  """A frozen signature: called with tensors by name, it returns a dict of tensors.

  Attributes:
    graph_def: the GraphDef.
    inputs, outputs: dict of name → the tensor's name in the graph, "image:0".
    function: the same as a WrappedFunction of the inputs, in order.
    folded: how many scales and shifts are parts of other operations now.
  """

  graph_def: tf.compat.v1.GraphDef
  inputs: Mapping[str, str]
  outputs: Mapping[str, str]
  function: Callable
  folded: int

  def __call__(self, **tensors):
    return dict(
      zip(self.outputs, self.function(*(tensors[name] for name in self.inputs)), strict=True)
    )


def freeze(signature: Callable, fold: bool = True) -> Frozen:
  """The frozen graph of a signature of a loaded SavedModel.

  Args:
    signature: a ConcreteFunction of keywords that returns a dict.
    fold: whether scales and shifts are folded.
  """
  frozen = tensorflow_internals.with_constants(signature)
  # The frozen function's outputs are in the order of the sorted names, as nests are flattened.
  outputs = dict(
    zip(
      sorted(signature.structured_outputs), (tensor.name for tensor in frozen.outputs), strict=True
    )
  )
  inputs = {tensor.name.partition(":")[0]: tensor.name for tensor in frozen.inputs}
  graph = _Graph(frozen.graph.as_graph_def(), list(inputs.values()), list(outputs.values()))
  graph.compute_constants()
  folded = graph.fold() if fold else 0
  graph_def = graph.prune()
  wrapped = _wrap(graph_def)
  function = wrapped.prune(
    [wrapped.graph.get_tensor_by_name(name) for name in inputs.values()],
    [wrapped.graph.get_tensor_by_name(name) for name in outputs.values()],
  )
  return Frozen(graph_def, inputs, outputs, function, folded)


def _wrap(graph_def):
  return v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph_def, name=""), [])


class _Graph:
  """A GraphDef that is being rewritten."""

  def __init__(self, graph_def, inputs, outputs):
    self._graph_def = graph_def
    self._keep = {name.partition(":")[0] for name in (*inputs, *outputs)}
    self._nodes = {node.name: node for node in graph_def.node}
    self._skip_identities()
    self._wrapped = _wrap(graph_def)  # which knows shapes, and computes what is constant
    self._ranks = {}  # of what was added

  def compute_constants(self):
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
        for node in self._nodes.values()
        if node.name not in known
        for name in map(_source, node.input)
        if _operation(name) in known and self._nodes[_operation(name)].op != "Const"
      }
    )
    if not wanted:
      return
    tensors = [self._wrapped.graph.get_tensor_by_name(_tensor(name)) for name in wanted]
    values = self._wrapped.prune([], tensors)()
    for name, value in zip(wanted, values, strict=True):
      self._replace(name, self._constant(f"{_operation(name)}/value", value.numpy()))

  def fold(self):
    """Makes scales and shifts parts of convolutions and matrix products; how many there were."""
    folded = 0
    while self._fold_after() or self._fold_before():  # one at a time: each changes who uses what
      folded += 1
    return folded

  def prune(self):
    """The GraphDef of what the outputs need."""
    needed, waiting = set(), sorted(self._keep)
    while waiting:
      name = waiting.pop()
      if name not in needed:
        needed.add(name)
        waiting.extend(map(_operation, self._nodes[name].input))
    graph_def = v1.GraphDef(versions=self._graph_def.versions, library=self._graph_def.library)
    graph_def.node.extend(node for name, node in self._nodes.items() if name in needed)
    return graph_def

  # ---------------------------------------------------------------- patterns

  def _fold_after(self):
    """Conv → [BiasAdd] → Mul → Add, of which each is used by the next alone."""
    for node in self._nodes.values():
      if node.op not in ("Mul", "AddV2", "Add", "Sub"):
        continue
      name, value = self._with_vector(node)
      if name is None:
        continue
      before = self._nodes[name]
      bias = before if before.op == "BiasAdd" and self._is_plain(before) else None
      weighted = self._nodes[_operation(before.input[0])] if bias is not None else before
      if (
        not self._can_take(weighted, value)
        or not self._used_once(before)
        or not (bias is None or self._used_once(weighted))
      ):
        continue
      shift = None if bias is None else self._value(bias.input[1])
      if bias is not None and shift is None:
        continue
      if node.op == "Mul":
        self._scale_outputs(weighted, value)
        shift = None if shift is None else shift * value
      else:
        shift = (0 if shift is None else shift) + (-value if node.op == "Sub" else value)
      if bias is not None:
        del self._nodes[bias.name]
      self._become_bias(node, weighted, shift)
      return True
    return False

  def _fold_before(self):
    """Mul → Add → Conv, or one of them, used by the convolution alone."""
    for node in self._nodes.values():
      if node.op not in ("Conv2D", "MatMul") or not self._is_plain(node):
        continue
      weights = self._value(node.input[1])
      before = self._nodes[_operation(node.input[0])]
      if weights is None or not self._used_once(before):
        continue
      scale, shift, source = self._affine(before)
      if source is None or len(scale) != weights.shape[-2]:
        continue
      pads = node.op == "Conv2D" and node.attr["padding"].s != b"VALID"
      if pads and not np.any(shift):
        shift_before = None
      elif pads:
        if before.op == "AddV2" and np.all(scale == 1):
          continue  # it is what this makes
        if np.any(np.abs(shift) > _LARGEST_SHIFT * np.abs(scale)):
          continue
        shift_before = shift / scale
      scaled = weights * scale[:, None]
      node.input[1] = self._constant(f"{node.name}/folded", scaled)
      node.input[0] = source
      if pads and shift_before is not None:
        node.input[0] = self._add(f"{node.name}/shifted", source, shift_before, node)
      elif not pads and np.any(shift):
        bias = np.tensordot(shift, weights, (0, -2))
        bias = bias if node.op == "MatMul" else bias.sum((0, 1))
        self._insert_bias(node, bias)
      return True
    return False

  def _affine(self, node):
    """(scale, shift, name of what is scaled) of nodes that end in this one, of vectors; or
    Nones.
    """
    shift = None
    if node.op in ("AddV2", "Add", "Sub"):
      name, value = self._with_vector(node)
      if name is None:
        return None, None, None
      shift = -value if node.op == "Sub" else value
      node_before = self._nodes[name]
      if node_before.op != "Mul" or not self._used_once(node_before):
        return np.ones_like(shift), shift, self._other_input(node)
      node = node_before
    if node.op != "Mul":
      return None, None, None
    name, scale = self._with_vector(node)
    if name is None or (shift is not None and shift.shape != scale.shape):
      return None, None, None
    shift = np.zeros_like(scale) if shift is None else shift
    return scale, shift, self._other_input(node)

  # ------------------------------------------------------------------- parts

  def _with_vector(self, node):
    """(operation, float32 [channels]) of `tensor op vector`, or Nones."""
    for place, other in ((1, 0), (0, 1)):
      value = self._value(node.input[place])
      if value is None or value.dtype != np.float32 or self._value(node.input[other]) is not None:
        continue
      if value.ndim and value.size == value.shape[-1] and not (node.op == "Sub" and place == 0):
        rank = self._rank(node.input[other])
        if rank is not None and rank >= value.ndim and rank in (2, 4):
          return _operation(node.input[other]), value.reshape(-1)
    return None, None

  def _other_input(self, node):
    return node.input[0] if self._value(node.input[0]) is None else node.input[1]

  def _can_take(self, node, vector):
    """Whether a node has weights, and so many outputs, for a vector to be folded into."""
    if node.op not in _WEIGHTED or not self._is_plain(node):
      return False
    weights = self._value(node.input[1])
    return (
      weights is not None
      and weights.dtype == np.float32
      and (_outputs(node, weights) == len(vector))
    )

  def _is_plain(self, node):
    """Whether channels are last, and a matrix is not transposed."""
    attributes = dict(node.attr)  # since the map itself makes what it is asked for
    if "data_format" in attributes and attributes["data_format"].s != b"NHWC":
      return False
    return not any(
      attributes[name].b for name in ("transpose_a", "transpose_b") if name in attributes
    )

  def _scale_outputs(self, node, scale):
    weights = self._value(node.input[1])
    scale = scale.reshape(weights.shape[-2:]) if node.op == "DepthwiseConv2dNative" else scale
    node.input[1] = self._constant(f"{node.name}/folded", weights * scale)

  def _become_bias(self, node, weighted, shift):
    """Makes a Mul or Add the bias of a node whose weights have its scale; or hands that node on."""
    dtype = node.attr["T"].type
    weighted_name = weighted.name
    node.ClearField("attr")
    del node.input[:]
    node.attr["T"].type = dtype
    if shift is None:
      node.op = "Identity"
      node.input.append(weighted_name)
      self._skip_identities()
      return
    node.op = "BiasAdd"
    node.input.extend([weighted_name, self._constant(f"{node.name}/bias", shift)])

  def _insert_bias(self, node, bias):
    """Puts a bias behind a node; one that is there takes it in."""
    users = [user for user in self._nodes.values() if node.name in map(_operation, user.input)]
    if len(users) == 1 and users[0].op == "BiasAdd" and self._value(users[0].input[1]) is not None:
      users[0].input[1] = self._constant(
        f"{users[0].name}/folded", self._value(users[0].input[1]) + bias
      )
      return
    added = v1.NodeDef(name=self._free(f"{node.name}/bias_add"), op="BiasAdd")
    added.attr["T"].type = node.attr["T"].type
    added.input.extend([node.name, self._constant(f"{node.name}/bias", bias)])
    self._replace(node.name, added.name)
    self._nodes[added.name] = added

  def _add(self, name, source, vector, like):
    added = v1.NodeDef(name=self._free(name), op="AddV2")
    added.attr["T"].type = like.attr["T"].type
    added.input.extend([source, self._constant(f"{name}/by", vector)])
    self._nodes[added.name] = added
    self._ranks[added.name] = 4
    return added.name

  def _constant(self, name, value):
    """The name of a new constant."""
    tensor = tf.make_tensor_proto(value)
    node = v1.NodeDef(name=self._free(name), op="Const")
    node.attr["dtype"].type = tensor.dtype
    node.attr["value"].tensor.CopyFrom(tensor)
    self._nodes[node.name] = node
    return node.name

  def _free(self, name):
    while name in self._nodes:
      name += "_"
    return name

  def _value(self, name):
    node = self._nodes[_operation(name)]
    return tf.make_ndarray(node.attr["value"].tensor) if node.op == "Const" else None

  def _rank(self, name):
    operation = _operation(name)
    if operation in self._ranks:
      return self._ranks[operation]
    try:
      return self._wrapped.graph.get_tensor_by_name(_tensor(_source(name))).shape.rank
    except KeyError:
      return None

  def _used_once(self, node):
    uses = [
      name for user in self._nodes.values() for name in user.input if _operation(name) == node.name
    ]
    return len(uses) == 1 and node.name not in self._keep

  def _replace(self, name, by):
    """Whoever takes a tensor takes another."""
    for node in self._nodes.values():
      for place, used in enumerate(node.input):
        if _source(used) == name and not used.startswith("^"):
          node.input[place] = by

  def _skip_identities(self):
    """Whoever takes what is handed on takes it where it comes from; orders of execution are
    dropped, since nothing here has an effect.
    """
    handed = {
      node.name: node.input[0]
      for node in self._nodes.values()
      if node.op == "Identity" and node.name not in self._keep
    }
    for node in self._nodes.values():
      plain = [name for name in node.input if not name.startswith("^")]
      for place, name in enumerate(plain):
        while _operation(name) in handed:
          name = handed[_operation(name)]
        plain[place] = name
      del node.input[:]
      node.input.extend(plain)
    for name in handed:
      del self._nodes[name]


def _outputs(node, weights):
  if node.op == "DepthwiseConv2dNative":
    return weights.shape[-2] * weights.shape[-1]
  return weights.shape[-1]


def _operation(name):
  return name.lstrip("^").partition(":")[0]


def _source(name):
  """A tensor's name as nodes have it, "a" for "a:0"."""
  return name.removesuffix(":0")


def _tensor(name):
  return name if ":" in name else f"{name}:0"
