"""Operations that a functionalized program computes differently from TensorFlow's lowering.

TensorFlow lowers some operations for a CPU into forms that are slow on a TPU, or not at all. The
rules here use operations that every XLA device computes well, so a program lowered anywhere is the
program of a TPU.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from trainer.programs import random_operations, resize_operations


def _where_of_a_constant(
  operation: tf.Operation, inputs: Sequence[tf.Tensor]
) -> Sequence[tf.Tensor] | None:
  """A rule: the indexes of a constant's true elements. Their number is fixed."""
  del operation
  (condition,) = map(tf.get_static_value, inputs)
  return None if condition is None else [tf.constant(np.argwhere(condition), tf.int64)]


RULES = {**random_operations.RULES, **resize_operations.RULES, "Where": _where_of_a_constant}

# The number of rows of their results depends on the data.
_OF_DATA = ("Where", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")


def replaced(operation: tf.Operation, inputs: Sequence[tf.Tensor]) -> Sequence[tf.Tensor] | None:
  """Computes an operation by its rule, if it has one.

  Args:
    operation: a traced operation.
    inputs: its inputs, in the graph in trace.

  Returns:
    The outputs, or None if the operation stays unchanged.
  """
  rule = RULES.get(operation.type)
  return rule(operation, inputs) if rule else None


def source_of_size(results: Iterable[tf.Tensor]) -> tf.Operation | None:
  """Returns an operation that gives a result a size that depends on the data, or None.

  XLA reserves the largest size for such an array, and would return all of it. Sums and parts of
  such arrays inside the program are correct.
  """
  seen = set()
  waiting = list(results)
  while waiting:
    tensor = waiting.pop()
    if tensor.shape.is_fully_defined() or tensor.ref() in seen:
      continue
    if tensor.op.type in _OF_DATA:
      return tensor.op
    seen.add(tensor.ref())
    waiting += tensor.op.inputs
  return None
