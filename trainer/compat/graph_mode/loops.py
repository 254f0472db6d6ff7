"""tf.while_loop on XLA devices, which compile a loop's gradient only if the loop has a bound.

    tf.while_loop(lambda i, _: i < 8, lambda i, x: (i + 1, step(x)), [0, x])

has one: a variable counts from a constant by a constant, below a constant. A program for a TPU gave
maximum_iterations itself; a program for a GPU had no need to.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.internals import tensorflow_internals
from trainer.tracing import variable_store

v1 = tf.compat.v1

# Comparison → the number of rounds minus the difference of the two sides.
_COMPARISONS = {"Less": 0, "LessEqual": 1}
_SUMS = ("Add", "AddV2")


def while_loop(cond: Callable, body: Callable, loop_vars: Any, *args: Any, **kwargs: Any) -> Any:
  """As tf.compat.v1.while_loop. On XLA devices, reads a bound off the condition."""
  store = variable_store.current()
  is_bounded = kwargs.get("maximum_iterations") is not None or len(args) > 5
  if store is None or store.on_xla is None or is_bounded:
    return v1.while_loop(cond, body, loop_vars, *args, **kwargs)
  bounds = _bounds(cond, loop_vars)
  counts: list[bool] = []

  def counting(*values: Any) -> Any:
    made = body(*values)
    for index, _ in bounds[:1]:
      counts.append(_counts_up(tf.nest.flatten(values)[index], tf.nest.flatten(made)[index]))
    return made

  if not bounds:
    return v1.while_loop(cond, body, loop_vars, *args, **kwargs)
  found = v1.while_loop(
    cond, counting, loop_vars, *args, **kwargs, maximum_iterations=max(bounds[0][1], 0)
  )
  if all(counts):
    return found
  return v1.while_loop(cond, body, loop_vars, *args, **kwargs)  # TensorFlow prunes the first loop


def _bounds(cond: Callable, loop_vars: Any) -> list[tuple[int, int]]:
  """Returns (index of the counting value, most iterations) for each comparison that must hold."""
  first = tf.nest.flatten(loop_vars)
  values = (int, float, bool, np.ndarray, np.generic)
  if not all(tf.is_tensor(each) or isinstance(each, values) for each in first):
    return []  # such as the TensorArray of dynamic_rnn, which has its own bound
  # Evaluate the condition in a scratch graph: the operations must not stay in the model_fn's graph.
  graph = tensorflow_internals.scratch_graph()
  with graph.as_default():
    given = []
    for each in first:
      like = tf.convert_to_tensor(each)
      given.append(v1.placeholder(like.dtype, like.shape))
    result = cond(*tf.nest.pack_sequence_as(loop_vars, given))
  found, waiting = [], [result]
  while waiting:
    operation = getattr(waiting.pop(), "op", None)
    if operation is None:
      continue
    # A bound holds only if the comparison ends the loop alone: follow `and`, not `or` or `not`.
    if operation.type in ("LogicalAnd", "Identity", "Squeeze", "Reshape"):
      waiting += operation.inputs[:2] if operation.type == "LogicalAnd" else operation.inputs[:1]
    if operation.type not in _COMPARISONS:
      continue
    count, limit = operation.inputs
    index = next((i for i, each in enumerate(given) if each is count), None)
    if index is None or not count.dtype.is_integer:
      continue
    start, end = tf.get_static_value(tf.convert_to_tensor(first[index])), _static(limit)
    if start is not None and end is not None:
      found.append((index, int(end) - int(start) + _COMPARISONS[operation.type]))
  return sorted(found, key=lambda one: one[1])


def _static(tensor: tf.Tensor) -> Any:
  """Returns the value of a constant tensor, also of a graph around; else None."""
  captures = getattr(tensor.graph, "captures", ())
  outer = next((outer for outer, inner in captures if inner is tensor), tensor)
  return tf.get_static_value(outer)


def _counts_up(before: tf.Tensor, after: Any) -> bool:
  """Returns whether `after` is `before` plus a constant above 0."""
  operation = getattr(after, "op", None)
  if operation is None or operation.type not in _SUMS:
    return False
  one, other = operation.inputs
  step = _static(other if one is before else one)
  return (one is before or other is before) and step is not None and step > 0
