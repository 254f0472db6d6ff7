"""What a program of graph mode takes for granted, inside its own functions and nowhere else.

- `==` between tensors or variables of the model_fn's graph, and `in` a list of them, is identity;
  they can be keys of a dict. TensorFlow 2.15 did the same in the graph of an Estimator.
- A dimension of a shape has `.value`. Known ones are ints that have it. An unknown one is None, or
  a `tf.Dimension` once the program called disable_v2_behavior or disable_v2_tensorshape.

`install` changes TensorFlow's methods once, when `trainer.compat.v1` is imported; what it puts
there asks `_graph`, a context variable, and does what it did before where that is not set.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

# The graph that a function of the program builds, on this thread; None outside of it.
_graph: contextvars.ContextVar[Any] = contextvars.ContextVar("compat_graph", default=None)

_installed = False
_has_dimensions = False


@contextlib.contextmanager
def kept() -> Iterator[None]:
  """Inside, on this thread, TensorFlow has the habits of graph mode."""
  token = _graph.set(v1.get_default_graph())
  try:
    yield
  finally:
    _graph.reset(token)


def are_kept() -> bool:
  """Whether a function of the program runs on this thread."""
  return _graph.get() is not None


def keep_dimensions(kept: bool) -> None:
  """Says whether an unknown dimension is a tf.Dimension in the program's functions."""
  global _has_dimensions
  _has_dimensions = kept


def install() -> None:
  """Changes TensorFlow's methods, once a process."""
  global _installed
  if _installed:
    return
  _installed = True
  _compare_by_identity(tf.Tensor, lambda tensor: getattr(tensor, "graph", None) is _graph.get())
  _compare_by_identity(tf.Variable, lambda variable: True)
  _give_values_to_dimensions(tf.TensorShape)


def _compare_by_identity(cls: type, applies: Callable[[Any], bool]) -> None:
  equal, unequal, hashed = cls.__eq__, cls.__ne__, cls.__hash__

  def is_meant(value: Any) -> bool:
    return _graph.get() is not None and applies(value)

  def __eq__(self, other):
    return self is other if is_meant(self) else equal(self, other)

  def __ne__(self, other):
    return self is not other if is_meant(self) else unequal(self, other)

  def __hash__(self):
    return id(self) if is_meant(self) else hashed(self)

  cls.__eq__, cls.__ne__, cls.__hash__ = __eq__, __ne__, __hash__


class _Dimension(int):
  """A known dimension: an int, and as TensorFlow 1 has it."""

  @property
  def value(self) -> int:
    return int(self)


def _as_dimension(size: Any) -> Any:
  if type(size) is int:
    return _Dimension(size)
  return v1.Dimension(None) if size is None and _has_dimensions else size


def _give_values_to_dimensions(cls: type) -> None:
  get, iterate = cls.__getitem__, cls.__iter__

  def __getitem__(self, key):
    found = get(self, key)
    return found if _graph.get() is None or isinstance(found, cls) else _as_dimension(found)

  def __iter__(self):
    sizes = iterate(self)
    return sizes if _graph.get() is None else map(_as_dimension, sizes)

  cls.__getitem__, cls.__iter__ = __getitem__, __iter__
