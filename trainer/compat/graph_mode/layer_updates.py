"""`layer.updates`, `get_updates_for`, `get_losses_for` and `apply` of older layers, on Keras 3's.

    update_ops = model.get_updates_for(None) + model.get_updates_for(features)
    train_op = tf.group(train_op, *update_ops)

A layer of Keras 3 assigns its statistics in its call. The layer's updates are those assignments in
the graph of the program's model_fn.
"""

import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer.tracing import fetched_operations

# Layer → (weak reference to a graph, names of the operations by which a call changes variables).
# Not the operations themselves: they keep their graph alive, which may keep the layer alive.
_calls: weakref.WeakKeyDictionary[Any, list[tuple[Any, list[str]]]] = weakref.WeakKeyDictionary()


def call(inner: Callable, layer: keras.layers.Layer, *args: Any, **kwargs: Any) -> Any:
  """Calls a layer, and records its updates; see layer_calls."""
  with fetched_operations.changes_made() as changes:
    found = inner(layer, *args, **kwargs)
  graph = tf.compat.v1.get_default_graph()
  # A layer may trace its call into a function. Operations of that inner graph are no operations of
  # the model_fn: the step could not run them.
  names = [one.name for one in changes if one.graph is graph]
  _calls.setdefault(layer, []).append((weakref.ref(graph), names))
  return found


def updates(layer: keras.layers.Layer) -> list[tf.Operation]:
  """Returns the operations of the current graph by which a layer's calls change variables."""
  graph = tf.compat.v1.get_default_graph()
  names = [
    name for reference, made in _calls.get(layer, ()) if reference() is graph for name in made
  ]
  return [graph.get_operation_by_name(name) for name in dict.fromkeys(names)]


def get_updates_for(layer: keras.layers.Layer, inputs: Any) -> list[tf.Operation]:
  """Returns a layer's updates, which all depend on its inputs; none if inputs is None."""
  return [] if inputs is None else updates(layer)


def get_losses_for(layer: keras.layers.Layer, inputs: Any) -> list[tf.Tensor]:
  """Returns a layer's losses if inputs is None, else none: both calls together have each once."""
  return list(layer.losses) if inputs is None else []


class _Added:
  """An attribute that Keras 3 layers lack. An attribute of the program's own layer comes first."""

  def __init__(self, get: Callable[[Any], Any]):
    self._get = get

  # No __set__: an attribute on the object or a subclass wins over a non-data descriptor.
  def __get__(self, layer: Any, owner: type) -> Any:
    return self if layer is None else self._get(layer)


for _name, _get in {
  "apply": lambda layer: layer.__call__,  # TensorFlow 1's other name of a call
  "updates": updates,
  "get_updates_for": lambda layer: lambda inputs=None: get_updates_for(layer, inputs),
  "get_losses_for": lambda layer: lambda inputs=None: get_losses_for(layer, inputs),
}.items():
  if not hasattr(keras.layers.Layer, _name):
    setattr(keras.layers.Layer, _name, _Added(_get))
