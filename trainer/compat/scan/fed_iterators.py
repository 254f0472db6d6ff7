"""Finds iterators of input_fns that a hook initializes with a feed_dict, which Octet cannot run."""

import ast
from collections.abc import Iterator

from trainer.compat.scan.apis import Program
from trainer.compat.scan.source import Source


def lines(programs: list[Program]) -> Iterator[str]:
  """Returns a line for each iterator of an input_fn that a hook initializes with a feed_dict."""
  for program in programs:
    for source in program.sources:
      if not {"make_initializable_iterator", "after_create_session"} <= _names(source):
        continue
      for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and _is_fed(node):
          yield (
            f"fed     {source.path}:{node.lineno}: a hook feeds the iterator of an input_fn. Octet "
            "reads an input without a session: give the values to the dataset itself, as in "
            "Dataset.from_tensor_slices((x, y))."
          )


def _names(source: Source) -> set[str]:
  """Returns the names of attributes and functions of a file."""
  nodes = [*ast.walk(source.tree)]
  attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
  return attributes | {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def _is_fed(call: ast.Call) -> bool:
  return (
    isinstance(call.func, ast.Attribute)
    and call.func.attr == "run"
    and any(isinstance(one, ast.Attribute) and one.attr == "initializer" for one in call.args[:1])
    and any(one.arg == "feed_dict" for one in call.keywords)
  )
