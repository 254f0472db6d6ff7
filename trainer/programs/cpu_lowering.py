"""Warns about ops that TensorFlow lowers differently for a CPU than for a TPU.

The figures of a step that was lowered for a CPU mislead for these ops.
"""

import re
from collections.abc import Iterator

import tensorflow as tf

from trainer.internals import tensorflow_internals
from trainer.tracing import user_frames

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
  for operation in _operations(graph):
    for pattern, name, what in _WARNINGS:
      if re.fullmatch(pattern, operation.type):
        found.setdefault((name, what), []).append(operation)
  sentences = []
  for (name, what), operations in found.items():
    places = (place_of(operation) for operation in operations)
    place = next((place for place in places if place), "")
    count = f"{len(operations)} ops, " if len(operations) > 1 else ""
    sentences.append(
      f"{name}{f' ({count}{place})' if place else ''}: lowered as for a CPU, {what}."
    )
  return sentences


def place_of(operation: tf.Operation) -> str:
  """Returns "file:line" where the user's program makes an op, or ""."""
  file, line = user_frames.innermost(
    [(frame.filename, frame.lineno) for frame in operation.traceback or ()]
  )
  return f"{file}:{line}" if file else ""


def graphs_of(operation: tf.Operation, seen: set[str] | None = None) -> Iterator[tf.Graph]:
  """Yields the graphs of the functions that an op calls, such as the body of a loop.

  Args:
    operation: the op.
    seen: names of functions to leave out; those that are found are added.
  """
  seen = set() if seen is None else seen
  for value in operation.node_def.attr.values():
    name = value.func.name
    if name and name not in seen:
      seen.add(name)
      function = tensorflow_internals.function_named(operation.graph, name)
      if function is not None and hasattr(function, "graph"):
        yield function.graph


def inner_graphs(graph: tf.Graph, seen: set[str] | None = None) -> Iterator[tf.Graph]:
  """Yields the graphs of the functions that a graph calls, directly or not; see `graphs_of`."""
  seen = set() if seen is None else seen
  for operation in graph.get_operations():
    for inner in graphs_of(operation, seen):
      yield inner
      yield from inner_graphs(inner, seen)


def _operations(graph):
  """Yields the ops of a graph and of the functions that it calls."""
  for each in (graph, *inner_graphs(graph)):
    yield from each.get_operations()
