"""The source files of the repository, each parsed once, for the rules that hold for all of them."""

import ast
import pathlib
from collections.abc import Callable, Iterable

import trainer
from docs.tools import syntax

ROOT = pathlib.Path(trainer.__file__).resolve().parents[1]


def files(*folders: str) -> list[str]:
  """Returns the paths of the Python files of folders, below the root, sorted folder by folder."""
  return [
    str(path.relative_to(ROOT))
    for folder in folders
    for path in sorted((ROOT / folder).rglob("*.py"))
  ]


def tree(path: str) -> ast.Module:
  """Returns what a file of the repository says; a rule must leave it as it is."""
  return syntax.tree((ROOT / path).read_text())


def breaches(paths: Iterable[str], rule: Callable[[str], Iterable]) -> dict[str, list]:
  """Returns what a rule finds, by path; only the files in which it finds something.

  Args:
    paths: of files, below the root.
    rule: function of a path that yields what is against it.
  """
  found = {path: list(rule(path)) for path in paths}
  return {path: lines for path, lines in found.items() if lines}
