"""Warns of a loss that a model_fn divides by a number of one core's batch, such as its tokens.

Octet cannot know this number: each core, each batch of an evaluation and each accumulated step gets
the same share of such a loss.
"""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer.cli import notices
from trainer.programs import graph_operations
from trainer.tracing import user_frames

_DIVISIONS = ("Div", "DivNoNan", "RealDiv")
# A loss that is one of these, of divided losses, has the same fault. trainer.global_mean is none.
_SUMS = ("Add", "AddN", "AddV2", "Cast", "Identity", "Mul", "Reshape", "SelectV2", "Squeeze", "Sub")
# Their result depends on the shape of their input alone.
_OF_SHAPES = ("OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike")


def warn(loss: tf.Tensor, element: tuple, model_name: str) -> None:
  """Warns if the loss is such a quotient, or a sum with one.

  Args:
    loss: scalar, of a graph.
    element: the tensors that the model_fn got.
    model_name: the model_fn's name.
  """
  batch = {id(leaf) for leaf in tf.nest.flatten(element)}
  for operation in _walk([loss], lambda operation: operation.type in _SUMS):
    if operation.type in _DIVISIONS and any(
      id(tensor) in batch
      for found in _walk([operation.inputs[1]], lambda other: other.type not in _OF_SHAPES)
      if found.type not in _OF_SHAPES
      for tensor in (*found.inputs, *found.outputs)
    ):
      where = user_frames.where(graph_operations.frames_of(operation))
      notices.warn_once(
        f"model_fn {model_name}: its loss is divided{where} by a number of a core's batch, such as "
        "its tokens without padding. Each core, each batch of an evaluation and each accumulated "
        "step then counts alike, with many tokens or few. For the mean over all tokens: "
        "loss = trainer.global_mean(values, weights)."
      )


def _walk(tensors: list[Any], goes_on: Any) -> Iterator[tf.Operation]:
  """Yields the operations that tensors come from, and those before operations that go on."""
  waiting, seen = [tensor.op for tensor in tensors], set()
  while waiting:
    operation = waiting.pop()
    if operation not in seen:
      seen.add(operation)
      yield operation
      if goes_on(operation):
        waiting += [tensor.op for tensor in operation.inputs]
