"""Habits of graph mode, which hold inside a program's own functions and nowhere else.

- `==` between tensors or variables of the model_fn's graph, and `in` a list of them, is identity;
  they can be keys of a dict. TensorFlow 2.15 did the same in the graph of an Estimator.
- A dimension of a shape has `.value`, in an input_fn too. Known ones are ints that have it. An
  unknown one is None, or a `tf.Dimension` once the program called disable_v2_behavior or
  disable_v2_tensorshape.

`trainer.internals.patches` replaces TensorFlow's methods once in a process. A replacement calls the
original unless the context variable `_graph` is set.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from trainer.internals import patches

v1 = tf.compat.v1

# The graph that a function of the program builds, on this thread; None outside of it.
_graph: contextvars.ContextVar[Any] = contextvars.ContextVar("compat_graph", default=None)

_ANY = object()  # the value of _graph that means each graph

# Whether an input_fn of the program runs, on this thread.
_is_input: contextvars.ContextVar[bool] = contextvars.ContextVar("compat_input", default=False)

_has_dimensions = False


@contextlib.contextmanager
def enable(graph: Any = None) -> Iterator[None]:
  """Inside, on this thread, TensorFlow has the habits of graph mode.

  Args:
    graph: of a model_fn, for what a program does with its tensors later; default: the one that is
      traced.
  """
  with patches.set_context(_graph, graph or v1.get_default_graph()):
    yield


def enable_in_any_graph() -> contextlib.AbstractContextManager[None]:
  """As `enable`, for code that begins graphs of its own: the habits hold in all of them."""
  return patches.set_context(_graph, _ANY)


def disable() -> contextlib.AbstractContextManager[None]:
  """Inside, on this thread, TensorFlow has no habits of graph mode: Octet's own code runs."""
  return patches.set_context(_graph, None)


def are_enabled() -> bool:
  """Whether a function of the program runs on this thread."""
  return _graph.get() is not None


def graph() -> Any:
  """The graph that a function of the program builds, on this thread; None outside of it."""
  return v1.get_default_graph() if _graph.get() is _ANY else _graph.get()


def keep_dimensions(kept: bool) -> None:
  """Says whether an unknown dimension is a tf.Dimension in the program's functions."""
  global _has_dimensions
  _has_dimensions = kept


def has_dimensions() -> bool:
  """Whether an unknown dimension is a tf.Dimension in the program's functions."""
  return _has_dimensions


@contextlib.contextmanager
def enable_shapes() -> Iterator[None]:
  """Inside, on this thread, sizes of shapes are as in graph mode, as an input_fn wants them."""
  with patches.set_context(_is_input, True):
    yield


def _sizes_have_values() -> bool:
  return are_enabled() or _is_input.get()


def _compare_by_identity(cls: type, is_meant: Callable[[Any], bool]) -> None:
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
  graph = _graph.get()
  if graph is None or not hasattr(tensor, "graph"):
    return False
  return tensor.graph is graph or graph is _ANY


_compare_by_identity(tf.Tensor, _is_of_the_graph)
_compare_by_identity(tf.Variable, lambda variable: are_enabled())


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
  """tf.nn.dynamic_rnn asks for copies of variables beside the operations that read them: where
  that is says a function, which TensorFlow takes in graphs alone. The device has its variables.
  """
  if not (are_enabled() and callable(caching_device)):
    original(self, caching_device)
