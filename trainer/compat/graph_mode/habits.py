"""Habits of graph mode. They hold only inside a program's own functions.

- `==` between tensors or variables of the model_fn's graph, and `in` a list of them, compare
  identity; tensors and variables can be keys of a dict. TensorFlow 2.15 did the same in the graph
  of an Estimator. The bodies of loops and the branches of tf.cond are parts of this graph.
- A variable is true, whatever its value: `average if average else variable`.
- A dimension of a shape has `.value`, in an input_fn too. A known dimension is an int with that
  attribute. An unknown one is None, or a `tf.Dimension` once the program called disable_v2_behavior
  or disable_v2_tensorshape.

`trainer.internals.patches` replaces TensorFlow's methods once in a process. A replacement calls the
original method unless the context variable `_graph` is set.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from trainer.internals import patches, tensorflow_internals

v1 = tf.compat.v1

# The graph that a function of the program builds on this thread; None outside of the program.
_graph: contextvars.ContextVar[Any] = contextvars.ContextVar("compat_graph", default=None)

_ANY = object()  # the value of _graph for every graph

# Whether an input_fn of the program runs on this thread.
_is_input: contextvars.ContextVar[bool] = contextvars.ContextVar("compat_input", default=False)

_has_dimensions = False


@contextlib.contextmanager
def enable(graph: Any = None) -> Iterator[None]:
  """Gives TensorFlow the habits of graph mode, inside the context and on this thread.

  Args:
    graph: the graph of a model_fn, for later work with its tensors. Default: the graph being
      traced.
  """
  with patches.set_context(_graph, graph or v1.get_default_graph()):
    yield


def enable_in_any_graph() -> contextlib.AbstractContextManager[None]:
  """As `enable`, for code that makes its own graphs: the habits hold in every graph."""
  return patches.set_context(_graph, _ANY)


def disable() -> contextlib.AbstractContextManager[None]:
  """Removes the habits of graph mode on this thread, for Octet's own code inside a program's."""
  return patches.set_context(_graph, None)


def are_enabled() -> bool:
  """Whether a function of the program runs on this thread."""
  return _graph.get() is not None


def graph() -> Any:
  """Returns the graph that a function of the program builds on this thread, or None."""
  return v1.get_default_graph() if _graph.get() is _ANY else _graph.get()


def keep_dimensions(kept: bool) -> None:
  """Sets whether an unknown dimension is a tf.Dimension in the program's functions."""
  global _has_dimensions
  _has_dimensions = kept


def has_dimensions() -> bool:
  """Returns whether an unknown dimension is a tf.Dimension in the program's functions."""
  return _has_dimensions


@contextlib.contextmanager
def enable_shapes() -> Iterator[None]:
  """Gives an input_fn the shapes of graph mode, inside the context and on this thread."""
  with patches.set_context(_is_input, True):
    yield


def _sizes_have_values() -> bool:
  return are_enabled() or _is_input.get()


def _compare_by_identity(cls: type, is_meant: Callable[[Any], bool]) -> None:
  # Python looks these methods up on the class, so only a replacement there reaches `==` and `in`.
  @patches.replaces(cls, "__eq__")
  def _equal(original, self, other):
    return self is other if is_meant(self) else original(self, other)

  @patches.replaces(cls, "__ne__")
  def _unequal(original, self, other):
    return self is not other if is_meant(self) else original(self, other)

  @patches.replaces(cls, "__hash__")
  def _hashed(original, self):
    return id(self) if is_meant(self) else original(self)


def _is_of_the_graph(tensor: tf.Tensor) -> bool:
  # Eager tensors have no graph. In a hook or an input_fn they keep TensorFlow 2's `==`.
  meant = _graph.get()
  if meant is None or not hasattr(tensor, "graph"):
    return False
  graph = tensor.graph
  # A loop's body and the branches of tf.cond are graphs inside of the model_fn's.
  while meant is not _ANY and graph is not None and graph is not meant:
    graph = getattr(graph, "outer_graph", None)
  return graph is not None


_compare_by_identity(tf.Tensor, _is_of_the_graph)
_compare_by_identity(tf.Variable, lambda variable: are_enabled())


@patches.replaces(*tensorflow_internals.VARIABLE_BOOL)
def _bool(original, self):
  return True if are_enabled() else original(self)


class _Dimension(int):
  """A known dimension: an int with the `value` of TensorFlow 1."""

  @property
  def value(self) -> int:
    return int(self)


def _as_dimension(size: Any) -> Any:
  if type(size) is int:
    return _Dimension(size)
  return v1.Dimension(None) if size is None and _has_dimensions else size


@patches.replaces(tf.TensorShape, "__getitem__")
def _getitem(original, self, key):
  found = original(self, key)
  is_size = not isinstance(found, tf.TensorShape)
  return _as_dimension(found) if is_size and _sizes_have_values() else found


@patches.replaces(tf.TensorShape, "__iter__")
def _iter(original, self):
  sizes = original(self)
  return map(_as_dimension, sizes) if _sizes_have_values() else sizes


@patches.replaces(v1.VariableScope, "set_caching_device")
def _set_caching_device(original, self, caching_device):
  """Ignores a function as the caching device.

  tf.nn.dynamic_rnn asks with a function for copies of variables beside the operations that read
  them. TensorFlow accepts functions in graphs alone, and Octet's devices have the variables.
  """
  if not (are_enabled() and callable(caching_device)):
    original(self, caching_device)
