"""Compares docs/architecture.md with the tree, and counts the figures that must stay small.

    python -m docs.tools.architecture

The table of docs/architecture.md names the rooms of trainer/ from the bottom to the top: a room
imports only from earlier rooms. The gate runs the same checks, see tests/docs/test_architecture.py.
"""

import ast
import collections
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping

from docs.tools import draw, readability, syntax

PAGE = draw.ROOT / "docs" / "architecture.md"
TRAINER = draw.ROOT / "trainer"

MOST_FILES_AT_THE_TOP = 12
MOST_LINES_OF_A_FUNCTION = 60  # a screen; its docstring does not count

# The most lines of code of each room, without empty lines, comments and docstrings. A commit that
# raises a number says why, and what it looked for to take away in exchange.
BUDGETS = {
  "*.py": 1324,
  "checkpoints": 2190,
  "cli": 467,
  "compare": 862,
  "compat": 64,
  "compat/contrib": 1478,
  "compat/estimator": 3601,
  "compat/graph_mode": 1854,
  "compat/layers": 537,
  "compat/names": 481,
  "compat/optimizers": 290,
  "compat/packages": 98,
  "compat/scan": 848,
  "compat/v1": 381,
  "compat/v2": 65,
  "config": 1144,
  "devices": 792,
  "estimator": 702,
  "evaluation": 533,
  "hooks": 372,
  "inputs": 996,
  "internals": 505,
  "io": 411,
  "judgement": 864,
  "loop": 1286,
  "new": 167,
  "optimization": 932,
  "outputs": 2470,
  "pjrt": 1400,
  "plot": 644,
  "preflight": 1046,
  "programs": 2569,
  "reporting": 1018,
  "serving": 1773,
  "settings": 327,
  "sweep": 2003,
  "tracing": 1814,
  "tracking": 488,
  "tune": 445,
}


def rooms(page: str) -> list[str]:
  """Returns the rooms that the page's table names, from the bottom to the top."""
  table = page.partition("From the bottom to the top:")[2].partition("\n## ")[0]
  cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
  return [
    name.removesuffix("/").removesuffix(".py")
    for cell in cells
    for name in re.findall(r"`([^`]+)`", cell)
  ]


def arrows_back(order: list[str], graph: Mapping[str, set[str]]) -> list[str]:
  """Returns the imports from rooms later in the order, as "room → room"."""
  place = {room: index for index, room in enumerate(order)}
  return [
    f"{room} → {other}"
    for room, others in sorted(graph.items())
    for other in sorted(others)
    if place[other] > place[room]
  ]


def imports_of_modules(folder: pathlib.Path) -> dict[str, set[str]]:
  """Returns for each module of a package, by its dotted name, the modules that it imports.

  A package's `__init__` does not count: it only re-exports names of its modules.
  """
  paths = {
    ".".join(path.relative_to(folder.parent).with_suffix("").parts): path
    for path in folder.rglob("*.py")
    if path.name != "__init__.py"
  }
  return {
    name: (set(syntax.imported(path.read_text())) & set(paths)) - {name}
    for name, path in paths.items()
  }


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
  """Returns the groups of nodes that reach each other."""

  def reached(start: str) -> set[str]:
    found: set[str] = set()
    work = [start]
    while work:
      new = graph[work.pop()] - found
      found |= new
      work += new
    return found

  reach = {node: reached(node) for node in graph}
  groups = {
    frozenset({node} | {other for other in reach[node] if node in reach[other]})
    for node in graph
    if node in reach[node]
  }
  return sorted(sorted(group) for group in groups)


def long_functions(paths: Iterable[pathlib.Path]) -> list[str]:
  """Returns the functions longer than a screen, as "path: name, lines"."""
  found = []
  for path in sorted(paths):
    for node in ast.walk(syntax.tree(path.read_text())):
      if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        lines = _lines(node) - (_lines(node.body[0]) if ast.get_docstring(node) else 0)
        if lines > MOST_LINES_OF_A_FUNCTION:
          found.append(f"{path.relative_to(draw.ROOT)}: {node.name}, {lines} lines")
  return found


def lines_of_rooms(trainer: pathlib.Path = TRAINER) -> dict[str, int]:
  """Returns room → its lines of code; compat by its own rooms, the files at the top as "*.py"."""
  lines = collections.Counter[str]()
  for path in trainer.rglob("*.py"):
    folder = path.parent.relative_to(trainer).parts
    room = "/".join(folder[:2] if folder[:1] == ("compat",) else folder[:1])
    lines[room or "*.py"] += readability.lines_of_code(path.read_text())
  return dict(lines)


def over_budget(lines: Mapping[str, int], budgets: Mapping[str, int]) -> list[str]:
  """Returns the rooms over their budget or without one, and the budgets without a room."""
  over = [
    f"{room}: {count} lines, budget {budgets.get(room, 'missing')}"
    for room, count in sorted(lines.items())
    if count > budgets.get(room, -1)
  ]
  return over + [f"{room}: no such room" for room in sorted(set(budgets) - set(lines))]


def _lines(node: ast.stmt) -> int:
  return (node.end_lineno or node.lineno) - node.lineno + 1


def walks(page: str) -> dict[str, list[str]]:
  """Returns first words of each walk of the page → the files that it names, in order."""
  text = page.partition("walks\n")[2]
  found = {}
  for paragraph in text.split("\n\n"):
    if title := re.match(r"\s*\*\*(.+?)\*\*", paragraph):
      found[title[1].rstrip(".")] = re.findall(r"`([\w/]+\.py)`", paragraph)
  return found


def wrong_steps(walk: list[str], trainer: pathlib.Path = TRAINER) -> list[str]:
  """Returns a walk's names of missing files, and the names that it repeats."""
  missing = [f"{name} is not there" for name in walk if not (trainer / name).exists()]
  times = collections.Counter(walk)
  return missing + [f"{name} is named {count} times" for name, count in times.items() if count > 1]


def main() -> int:
  """Prints the figures; returns 1 if one is wrong."""
  page = PAGE.read_text()
  graph = draw.imports_of_rooms(TRAINER)
  order = rooms(page)
  files = list(TRAINER.rglob("*.py"))
  top = sorted(path.name for path in TRAINER.glob("*.py"))
  unlike = sorted(set(order) ^ set(graph))
  back = arrows_back(order, graph) if not unlike else ["not known: the table is out of date"]
  wrong = {
    "rooms in the table or in the tree alone": unlike,
    "arrows back": back,
    "circles of modules": [" ↔ ".join(circle) for circle in circles(imports_of_modules(TRAINER))],
    "functions over a screen": long_functions(files),
    "wrong steps of walks": [step for walk in walks(page).values() for step in wrong_steps(walk)],
    "files at the top beyond the limit": top[MOST_FILES_AT_THE_TOP:],
    "rooms over their budget": over_budget(lines_of_rooms(), BUDGETS),
  }
  print(f"rooms {len(graph)}, arrows {sum(map(len, graph.values()))}, files at the top {len(top)}")
  lines = lines_of_rooms()
  for room in sorted(lines):
    print(f"{lines[room]:7,} of {BUDGETS.get(room, 0):7,} lines of code  {room}")
  print(f"{sum(lines.values()):7,} of {sum(BUDGETS.values()):7,}")
  for what, found in wrong.items():
    print(f"{what}: {len(found)}" + "".join(f"\n  {each}" for each in found))
  return int(any(wrong.values()))


if __name__ == "__main__":
  sys.exit(main())
