"""tf.placeholder outside of a graph: TensorFlow 1 always had a default graph.

Programs make placeholders outside of all functions for callers that only read shapes and dtypes,
such as `tf.estimator.export.build_raw_serving_input_receiver_fn`. Such placeholders get their own
graph.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


@functools.cache
def _graph() -> tf.Graph:
  return tf.Graph()


def _in_a_graph(function: Callable) -> Callable:
  @functools.wraps(function)
  def make(*args: Any, **kwargs: Any) -> Any:
    outside = tf.executing_eagerly()
    with _graph().as_default() if outside else contextlib.nullcontext():
      return function(*args, **kwargs)

  make.__module__ = __name__
  return make


placeholder = _in_a_graph(v1.placeholder)
placeholder_with_default = _in_a_graph(v1.placeholder_with_default)
sparse_placeholder = _in_a_graph(v1.sparse_placeholder)
