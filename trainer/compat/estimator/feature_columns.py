"""tf.feature_column of TensorFlow 1, whose programs make their columns outside of a graph, too."""

import contextlib
import functools
from typing import Any

import tensorflow as tf

__all__ = ["shared_embedding_columns"]

_shared = tf.compat.v1.feature_column.shared_embedding_columns


@functools.wraps(_shared)
def shared_embedding_columns(*args: Any, **kwargs: Any) -> list[Any]:
  """Returns columns with one embedding for all, as TensorFlow's function in a graph does."""
  # TensorFlow refuses them in eager code. Columns have no tensors, so any graph will do.
  graph = tf.Graph().as_default() if tf.executing_eagerly() else contextlib.nullcontext()
  with graph:
    return _shared(*args, **kwargs)
