"""Where the batches of a traced step come from, for who runs a part of the step by itself.

A hook of TensorFlow 1 may run an operation that needs a batch: a session takes the next one from
the input of the training. The loop's graph has the iterator as an argument; this module finds the
iterator by the graph.
"""

import weakref
from typing import Any

import tensorflow as tf

_iterators: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def read_from(graph: tf.Graph, iterator: tf.data.Iterator) -> None:
  """Records the iterator of a loop's batches by the loop's graph."""
  # Weakly: an iterator holds threads and memory for as long as it lives.
  _iterators[graph] = weakref.ref(iterator)


def resource_of(placeholder: tf.Tensor) -> tf.Tensor | None:
  """Returns the iterator's resource, if a placeholder of a loop's graph has it; else None."""
  known = _iterators.get(placeholder.graph)
  iterator = None if known is None else known()
  if iterator is None or placeholder.dtype != tf.resource:
    return None
  (resource,) = tf.nest.flatten(iterator, expand_composites=True)
  return resource
