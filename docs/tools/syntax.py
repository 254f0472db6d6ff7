"""Syntax trees of source files, for tools and tests that look at many files."""

import ast
import functools
from collections.abc import Iterator


# The trees of trainer/ take 2 s, and a dozen rules look at them.
@functools.cache
def tree(source: str) -> ast.Module:
  """Returns what a source says; a caller must not change it."""
  return ast.parse(source)


@functools.cache
def imported(source: str) -> tuple[str, ...]:
  """Returns the names that a source imports, with their modules: "trainer.io.files", "os"."""
  return tuple(_imported(tree(source)))


def _imported(module: ast.Module) -> Iterator[str]:
  for node in ast.walk(module):
    if isinstance(node, ast.Import):
      yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      yield str(node.module)
      yield from (f"{node.module}.{alias.name}" for alias in node.names)
