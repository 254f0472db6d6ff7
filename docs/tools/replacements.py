"""Writes the table of docs/replaced_functions.md: each function of a library that Octet replaces.

    python -m docs.tools.replacements

The code says where and what; the page keeps the reason and the condition that a person wrote there.
A new row lacks both until somebody writes them: tests/trainer/internals/test_replaced_functions.py
refuses empty ones.
"""

import ast
import pathlib
import re
from collections.abc import Iterator

from docs.tools import draw, syntax

PAGE = draw.ROOT / "docs" / "replaced_functions.md"
TRAINER = draw.ROOT / "trainer"
LIBRARIES = ("keras", "tensorboard", "tf", "v1")
_ROW = re.compile(r"^\| `([\w/]+\.py)` \| `(.+?)` \| (.*?) \| (.*?) \|$", re.M)


def replaced(code: str) -> Iterator[str]:
  """Yields what a file replaces, as written in its calls of `replaces` and `setattr`."""
  for node in ast.walk(syntax.tree(code)):
    if isinstance(node, ast.Call):
      name = ast.unparse(node.func)
      arguments = ", ".join(map(ast.unparse, node.args[:2]))
      if name.rpartition(".")[2] == "replaces" or (name == "setattr" and of_library(node.args[0])):
        yield arguments


def of_library(node: ast.expr) -> bool:
  """Returns whether an expression begins with the name of a library."""
  return ast.unparse(node).partition(".")[0] in LIBRARIES


def files() -> list[pathlib.Path]:
  """Returns the files of trainer/ that may replace something."""
  return [path for path in sorted(TRAINER.rglob("*.py")) if path.name != "patches.py"]


def rows(text: str) -> list[tuple[str, str, str, str]]:
  """Returns (where, what, why, active) of each row of a page."""
  return _ROW.findall(text)


def page() -> str:
  """Returns the page in Markdown, with the table as the code has it."""
  text = PAGE.read_text()
  known = {row[:2]: row[2:] for row in rows(text)}
  found = {
    (path.relative_to(TRAINER).as_posix(), what): None
    for path in files()
    for what in replaced(path.read_text())
  }
  order = [*(key for key in known if key in found), *(key for key in found if key not in known)]
  order.sort(key=lambda key: (key[0].startswith("compat/"), key[0]))
  lines = [
    f"| `{where}` | `{what}` | {' | '.join(known.get((where, what), ('', '')))} |"
    for where, what in order
  ]
  head, rule, _ = text.partition("|---|---|---|---|\n")
  return head + rule + "\n".join([*lines, ""])


def main() -> None:
  """Writes the page."""
  PAGE.write_text(page())


if __name__ == "__main__":
  main()
