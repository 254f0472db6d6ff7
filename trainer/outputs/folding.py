"""Folds scales and shifts into the convolution or matrix product beside them.

    folded = fold(graph)                  # graph is a rewriting.Graph

In inference batch normalization is a scale and a shift by constants, `x * s + b`. There are three
ways to fold it:

- It comes after the convolution or matrix product: multiply the weights by s; b becomes the bias.
- It comes before, without padding: multiply the weights by s; the sum of the weights times b
  becomes the bias.
- It comes before a convolution that pads with zeros: multiply the weights by s, and keep an
  addition of b / s before the convolution. The padding is 0 after the shift, so the shift cannot
  move into the bias.

In exact arithmetic the results are the same. In float32 they differ by rounding.
"""

import numpy as np
import tensorflow as tf

from trainer.outputs import rewriting

v1 = tf.compat.v1

_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
_WEIGHTED = (*_CONVOLUTIONS, "MatMul")
_LARGEST_SHIFT = 1e4  # Beyond this b / s, rounding would hurt, and the scale and shift stay.


def fold(graph: rewriting.Graph) -> int:
  """Folds all scales and shifts of a graph in place; returns their number."""
  folded = 0
  # One at a time: each fold changes the graph's users of nodes.
  while _fold_after(graph) or _fold_before(graph):
    folded += 1
  return folded


def _fold_after(graph):
  """Folds one Mul or Add in Conv → [BiasAdd] → Mul → Add; each feeds the next one only."""
  for node in graph.nodes.values():
    if node.op not in ("Mul", "AddV2", "Add", "Sub"):
      continue
    source, value = _with_vector(graph, node)
    if source is None:
      continue
    before = graph.nodes[rewriting.operation_of(source)]
    bias = before if before.op == "BiasAdd" and _is_plain(before) else None
    weighted = graph.nodes[rewriting.operation_of(before.input[0])] if bias is not None else before
    if (
      not _can_take(graph, weighted, value)
      or not graph.is_used_once(before)
      or not (bias is None or graph.is_used_once(weighted))
    ):
      continue
    shift = None if bias is None else graph.value(bias.input[1])
    if bias is not None and shift is None:
      continue
    if node.op == "Mul":
      _scale_outputs(graph, weighted, value)
      shift = None if shift is None else shift * value
    else:
      shift = (0 if shift is None else shift) + (-value if node.op == "Sub" else value)
    if bias is not None:
      del graph.nodes[bias.name]
    _become_bias(graph, node, weighted, shift)
    return True
  return False


def _fold_before(graph):
  """Folds Mul → Add, or one of them, into the convolution that they alone feed."""
  for node in graph.nodes.values():
    if node.op not in ("Conv2D", "MatMul") or not _is_plain(node):
      continue
    weights = graph.value(node.input[1])
    before = graph.nodes[rewriting.operation_of(node.input[0])]
    if weights is None or not graph.is_used_once(before):
      continue
    scale, shift, source = _affine(graph, before)
    if source is None or len(scale) != weights.shape[-2]:
      continue
    pads = node.op == "Conv2D" and node.attr["padding"].s != b"VALID"
    if pads and not np.any(shift):
      shift_before = None
    elif pads:
      if before.op == "AddV2" and np.all(scale == 1):
        continue  # An earlier fold has made this addition.
      if np.any(np.abs(shift) > _LARGEST_SHIFT * np.abs(scale)):
        continue
      shift_before = shift / scale
    scaled = weights * scale[:, None]
    node.input[1] = graph.add_constant(f"{node.name}/folded", scaled)
    node.input[0] = source
    if pads and shift_before is not None:
      node.input[0] = _add(graph, f"{node.name}/shifted", source, shift_before, node)
    elif not pads and np.any(shift):
      bias = np.tensordot(shift, weights, (0, -2))
      bias = bias if node.op == "MatMul" else bias.sum((0, 1))
      _insert_bias(graph, node, bias)
    return True
  return False


def _affine(graph, node):
  """Returns (scale, shift, name of their input) of a Mul → Add that ends in a node, or Nones."""
  shift = None
  if node.op in ("AddV2", "Add", "Sub"):
    source, value = _with_vector(graph, node)
    if source is None:
      return None, None, None
    shift = -value if node.op == "Sub" else value
    before = graph.nodes[rewriting.operation_of(source)]
    if before.op != "Mul" or not graph.is_used_once(before):
      return np.ones_like(shift), shift, source
    node = before
  if node.op != "Mul":
    return None, None, None
  source, scale = _with_vector(graph, node)
  if source is None or (shift is not None and shift.shape != scale.shape):
    return None, None, None
  return scale, np.zeros_like(scale) if shift is None else shift, source


def _with_vector(graph, node):
  """Splits `tensor op vector` into (name of the tensor, float32 [channels]), or Nones."""
  for place, other in ((1, 0), (0, 1)):
    value = graph.value(node.input[place])
    if value is None or value.dtype != np.float32 or graph.value(node.input[other]) is not None:
      continue
    if value.ndim and value.size == value.shape[-1] and not (node.op == "Sub" and place == 0):
      rank = graph.rank(node.input[other])
      if rank is not None and rank >= value.ndim and rank in (2, 4):
        return node.input[other], value.reshape(-1)
  return None, None


def _can_take(graph, node, vector):
  """Whether a node has constant weights, and an output channel for each entry of a vector."""
  if node.op not in _WEIGHTED or not _is_plain(node):
    return False
  weights = graph.value(node.input[1])
  if weights is None or weights.dtype != np.float32:
    return False
  axes = weights.shape[-2:] if node.op == "DepthwiseConv2dNative" else weights.shape[-1:]
  return np.prod(axes) == len(vector)


def _is_plain(node):
  """Whether channels are last and no matrix has a transposition."""
  attributes = dict(node.attr)  # Looking up a missing key in the proto map would add the key.
  if "data_format" in attributes and attributes["data_format"].s != b"NHWC":
    return False
  return not any(
    attributes[name].b for name in ("transpose_a", "transpose_b") if name in attributes
  )


def _scale_outputs(graph, node, scale):
  weights = graph.value(node.input[1])
  scale = scale.reshape(weights.shape[-2:]) if node.op == "DepthwiseConv2dNative" else scale
  node.input[1] = graph.add_constant(f"{node.name}/folded", weights * scale)


def _become_bias(graph, node, weighted, shift):
  """Turns a folded Mul or Add into the BiasAdd of a node, or removes it if there is no shift."""
  dtype = node.attr["T"].type
  weighted_name = weighted.name
  node.ClearField("attr")
  del node.input[:]
  node.attr["T"].type = dtype
  if shift is None:
    node.op = "Identity"
    node.input.append(weighted_name)
    graph.skip_identities()
    return
  node.op = "BiasAdd"
  node.input.extend([weighted_name, graph.add_constant(f"{node.name}/bias", shift)])


def _insert_bias(graph, node, bias):
  """Adds a bias after a node. An existing BiasAdd gets the sum."""
  users = [
    user for user in graph.nodes.values() if node.name in map(rewriting.operation_of, user.input)
  ]
  if len(users) == 1 and users[0].op == "BiasAdd" and graph.value(users[0].input[1]) is not None:
    users[0].input[1] = graph.add_constant(
      f"{users[0].name}/folded", graph.value(users[0].input[1]) + bias
    )
    return
  added = v1.NodeDef(name=graph.free_name(f"{node.name}/bias_add"), op="BiasAdd")
  added.attr["T"].type = node.attr["T"].type
  added.input.extend([node.name, graph.add_constant(f"{node.name}/bias", bias)])
  graph.replace(node.name, added.name)
  graph.add_node(added)


def _add(graph, name, source, vector, like):
  added = v1.NodeDef(name=graph.free_name(name), op="AddV2")
  added.attr["T"].type = like.attr["T"].type
  added.input.extend([source, graph.add_constant(f"{name}/by", vector)])
  graph.add_node(added, rank=4)
  return added.name
