"""Finds sessions outside of a graph, where Octet runs operations at once."""

import ast
from collections.abc import Iterator

from trainer.compat.scan.apis import Program
from trainer.compat.scan.source import Source

_SESSIONS = (
  *("InteractiveSession", "Session", "train.MonitoredSession", "train.MonitoredTrainingSession"),
  "train.SingularMonitoredSession",
)


def lines(programs: list[Program]) -> Iterator[str]:
  """Returns a line for each session of a file that opens no graph and is no tf.test.TestCase."""
  for program in programs:
    for source in program.sources:
      for use in source.named_uses:
        is_made = use.name in _SESSIONS and use.positional >= 0
        # Session(target, graph)
        has_graph = "graph" in use.keywords or use.positional > 1
        if is_made and not has_graph and not _opens_graphs(source):
          yield (
            f"session {source.path}:{use.line}: a session outside of a graph. There, Octet runs "
            "operations at once. Build them inside `with tf.Graph().as_default(), tf.Session() as "
            "session:`."
          )


def _opens_graphs(source: Source) -> bool:
  names = {node.attr for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)}
  return bool(names & {"TestCase", "as_default"})
