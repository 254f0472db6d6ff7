"""Lists modules without a test file of their name, and tests with too long names.

    python -m docs.tools.tests

Tests mirror the folders: the tests of trainer/loop/rollback.py belong in
tests/trainer/loop/test_rollback.py. A test's name has the subject and the expectation.
"""

import ast
import pathlib
import re
from collections.abc import Iterator

from docs.tools import draw

MOST_CHARACTERS = 60
# The tests of trainer/compat compare with recordings of TensorFlow 2.15, by behavior instead of by
# file.
NOT_MIRRORED = ("trainer/compat/",)


def modules_without_tests(root: pathlib.Path = draw.ROOT) -> list[str]:
  """Returns the paths of modules below the root without a test file at the mirrored path.

  It leaves out modules that define no function and no class, such as entry points of commands.
  """
  modules = [
    path.relative_to(root)
    for folder in ("trainer", "models", "input_pipelines")
    for path in sorted((root / folder).rglob("*.py"))
    if not path.name.startswith("__")
  ]
  return [
    path.as_posix()
    for path in modules
    if not path.as_posix().startswith(NOT_MIRRORED)
    and not (root / "tests" / path.with_name(f"test_{path.name}")).exists()
    and _defines_something(root / path)
  ]


def _defines_something(path):
  kinds = (ast.FunctionDef, ast.ClassDef)
  return any(isinstance(node, kinds) for node in ast.parse(path.read_text()).body)


def long_names(root: pathlib.Path = draw.ROOT) -> Iterator[str]:
  """Yields "path::name" of each test with a name longer than MOST_CHARACTERS."""
  for path in sorted((root / "tests").rglob("test_*.py")):
    for name in re.findall(r"^ *def (test_\w+)\(", path.read_text(), re.M):
      if len(name) > MOST_CHARACTERS:
        yield f"{path.relative_to(root).as_posix()}::{name}"


def main() -> None:
  """Prints both lists."""
  for title, lines in (
    ("modules without a file of tests", modules_without_tests()),
    (f"tests with names of more than {MOST_CHARACTERS} characters", list(long_names())),
  ):
    print(f"{len(lines)} {title}", *lines, sep="\n  ")


if __name__ == "__main__":
  main()
