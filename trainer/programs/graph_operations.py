"""The operations of a traced function, and of the functions that it calls."""

from collections.abc import Iterator

import tensorflow as tf

from trainer.internals import tensorflow_internals
from trainer.tracing import user_frames


def walk(graph: tf.Graph, seen: set[str] | None = None) -> Iterator[tf.Operation]:
  """Yields the operations of a graph, and then of the functions that they call.

  Args:
    graph: the graph.
    seen: names of functions to skip; the walk adds the functions that it finds.
  """
  seen, inner = set() if seen is None else seen, []
  for operation in graph.get_operations():
    yield operation
    inner += called_graphs(operation, seen)
  for each in inner:
    yield from walk(each, seen)


def called_graphs(operation: tf.Operation, seen: set[str] | None = None) -> list[tf.Graph]:
  """Returns the graphs of the functions that an operation calls, such as the body of a loop."""
  graphs, seen = [], set() if seen is None else seen
  for value in operation.node_def.attr.values():
    name = value.func.name
    if name and name not in seen:
      seen.add(name)
      function = tensorflow_internals.function_named(operation.graph, name)
      if hasattr(function, "graph"):
        graphs.append(function.graph)
  return graphs


def frames_of(operation: tf.Operation) -> list[tuple[str, int]]:
  """Returns (file, line) of each frame that made an operation, the outermost first."""
  return [(frame.filename, frame.lineno) for frame in operation.traceback or ()]


def place_of(operation: tf.Operation) -> str:
  """Returns "file:line" where the user's program makes an operation, or ""."""
  file, line = user_frames.innermost(frames_of(operation))
  return f"{file}:{line}" if file else ""
