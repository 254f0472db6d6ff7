"""The digest of a traced program: programs with the same digest lower to the same code.

This digest finds the compiled form of a program without lowering the program. TensorFlow numbers
functions in a process's order, and writes these numbers into names of operations too. The digest
therefore ignores names and identifies an operation by its place.
"""

import functools
import hashlib
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from trainer import __version__

# Attributes that a program does not depend on: the number of the gradient function that a process
# has registered, and the name that Python has for an argument.
_LEFT_OUT = {"_gradient_op_type", "_user_specified_name"}


def of(traced: tf.types.experimental.ConcreteFunction, *more: Any) -> str:
  """Returns the digest of a traced function.

  Args:
    traced: the function.
    *more: other dependencies of its code, with a complete repr.
  """
  definition = traced.graph.as_graph_def()
  library = {each.signature.name: each for each in definition.library.function}
  found = hashlib.sha256(repr(more).encode())
  found.update(_of_nodes([], definition.node, _Functions(library)).encode())
  numbers = {operation.name: n for n, operation in enumerate(traced.graph.get_operations())}
  for tensor in (*traced.graph.inputs, *traced.graph.outputs):
    found.update(repr((numbers[tensor.op.name], tensor.value_index, tensor.shape)).encode())
  for outside, _ in traced.graph.captures:
    if outside.dtype not in (tf.resource, tf.variant):  # The program has its value as a constant.
      found.update(repr((outside.dtype.name, outside.shape)).encode() + outside.numpy().tobytes())
  return found.hexdigest()


@functools.cache
def versions() -> Mapping[str, str]:
  """Returns the dependencies of a program's code other than the program: name → text."""
  code = hashlib.sha256()
  own = pathlib.Path(__file__).parent
  for path in sorted([*own.glob("*.py"), *(own.parent / "pjrt").glob("*.py")]):
    code.update(path.read_bytes())
  return {
    "tensorflow": tf.version.VERSION,
    "octet": f"{__version__}, {code.hexdigest()[:8]}",
    "lowering flags": os.environ.get("TF_XLA_FLAGS", ""),
  }


class _Functions:
  """The digests of functions, each computed once."""

  def __init__(self, library: Mapping[str, Any]) -> None:
    self._library = library
    self._digests: dict[str, str] = {}

  def digest(self, name: str) -> str:
    """Returns the digest of a function; for any other name, the name."""
    if name not in self._library:
      return name
    if name not in self._digests:
      self._digests[name] = self._of(self._library[name])
    return self._digests[name]

  def _of(self, function):
    arguments = [argument.name for argument in function.signature.input_arg]
    places = _places(arguments, function.node_def)
    results = [_place(function.ret[each.name], places) for each in function.signature.output_arg]
    controls = sorted(_place(each, places) for each in function.control_ret.values())
    types = [each.type for each in function.signature.input_arg]
    nodes = _of_nodes(arguments, function.node_def, self)
    return _digest([nodes, repr((types, results, controls))])


def _of_nodes(arguments, nodes, functions):
  """Returns the digest of operations, in their order."""
  places = _places(arguments, nodes)
  return _digest(_of_node(node, places, functions) for node in nodes)


def _of_node(node, places, functions):
  attributes = []
  for name in sorted(set(node.attr) - _LEFT_OUT):
    value = node.attr[name]
    for called in (value.func, *value.list.func) if _calls(value) else ():
      called.name = functions.digest(called.name)
    attributes.append((name, value.SerializeToString(deterministic=True)))
  inputs = [_place(each, places) for each in node.input]
  return repr((functions.digest(node.op), inputs, attributes))


def _calls(value):
  return value.HasField("func") or bool(value.list.func)


def _places(arguments, nodes):
  """Numbers the arguments and operations of a graph, by name."""
  return {name: str(number) for number, name in enumerate([*arguments, *(n.name for n in nodes)])}


def _place(tensor: str, places: Mapping[str, str]) -> str:
  """Returns the name of a tensor, or of a control input "^name", with a place for a name."""
  name, colon, output = tensor.removeprefix("^").partition(":")
  return ("^" * tensor.startswith("^")) + places[name] + colon + output


def _digest(parts: Iterable[str]) -> str:
  found = hashlib.sha256()
  for part in parts:
    found.update(f"{len(part)} {part}".encode())
  return found.hexdigest()
