"""Warns of differences that broadcast: [batch, 1] - [batch] is [batch, batch].

Such a loss looks like any other number, and trains the model towards the mean of the labels.
"""

import tensorflow as tf

from trainer.cli import notices
from trainer.programs import graph_operations
from trainer.tracing import user_frames

_DIFFERENCES = ("Sub", "SquaredDifference")


def warn(graph: tf.Graph, batch: int | None, model_name: str) -> None:
  """Warns of each such difference in a traced graph.

  Args:
    graph: the graph of the model_fn's trace.
    batch: the examples of a core; None if unknown, for no warning. Differences of other sizes are
      intentional, such as those between places in a text.
    model_name: the model_fn's name.
  """
  for operation in graph.get_operations():
    if operation.type in _DIFFERENCES and _broadcasts(
      [part.shape for part in operation.inputs], batch
    ):
      shapes = " and ".join(str(part.shape.as_list()) for part in operation.inputs)
      where = user_frames.where(graph_operations.frames_of(operation))
      text = (
        f"model_fn {model_name}: the difference of {shapes}{where} has the shape "
        f"{operation.outputs[0].shape.as_list()}: each example minus each other. Give both the "
        "same shape, as by tf.squeeze(x, -1)."
      )
      notices.warn_once(text)


def _broadcasts(shapes, batch):
  """Whether the shapes are [batch, 1] and [batch], in any order, with more than one example."""
  known = [shape.as_list() if shape.rank is not None else [] for shape in shapes]
  one, other = sorted(known, key=len)
  return batch not in (None, 1) and one == [batch] and other == [batch, 1]
