"""Warns about ops that TensorFlow lowers differently for a CPU than for a TPU.

The figures of a step that was lowered for a CPU mislead for these ops.
"""

import re

import tensorflow as tf

from trainer.programs import graph_operations

# Of 93 small ops that were lowered for both (TensorFlow 2.20), these gave different HLO.
_WARNINGS = (
  (
    r"ResizeBilinear(Grad)?",
    "bilinear resize",
    "its figures are too high: the gradient about 25 times in time, 47 times in memory",
  ),
  (r"ResizeNearestNeighbor(Grad)?", "nearest-neighbour resize", "its figures are too high"),
  (
    r"StatelessRandom\w+|StatelessTruncatedNormal\w*|StatelessMultinomial",
    "random numbers",
    "they come from another algorithm; figures differ a little",
  ),
  (
    r"Where",
    "tf.where or tf.boolean_mask of one argument",
    "the compaction is done in another way; figures differ",
  ),
)


def warnings(graph: tf.Graph) -> list[str]:
  """Returns a sentence for each kind of op in a traced step whose figures mislead.

  Each sentence has the file and line where the user's program first makes such an op.
  """
  found: dict[tuple[str, str], list[tf.Operation]] = {}
  for operation in graph_operations.walk(graph):
    for pattern, name, what in _WARNINGS:
      if re.fullmatch(pattern, operation.type):
        found.setdefault((name, what), []).append(operation)
  sentences = []
  for (name, what), operations in found.items():
    places = (graph_operations.place_of(operation) for operation in operations)
    place = next((place for place in places if place), "")
    count = f"{len(operations)} ops, " if len(operations) > 1 else ""
    sentences.append(
      f"{name}{f' ({count}{place})' if place else ''}: lowered as for a CPU, {what}."
    )
  return sentences
