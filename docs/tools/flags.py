"""Writes the second part of docs/commands.md: the flags of each command, read from the code.

    python -m docs.tools.flags

The gate compares the page with the code, see tests/docs/test_flags.py.
"""

import ast
from collections.abc import Iterator

from docs.tools import draw, syntax
from trainer.preflight import topology

PAGE = draw.ROOT / "docs" / "commands.md"
MARK = "<!-- python -m docs.tools.flags writes the rest of this page. -->\n"

# The commands with flags, in the order of the page's table.
COMMANDS = {
  "trainer.main": "trainer/main.py",
  "trainer.new": "trainer/new/main.py",
  "trainer.predict": "trainer/serving/predict_main.py",
  "trainer.serve": "trainer/serving/serve_main.py",
  "trainer.data_service": "trainer/inputs/data_service_main.py",
  "trainer.devices": "trainer/devices/main.py",
  "trainer.plot": "trainer/plot/main.py",
  "trainer.reproduce": "trainer/reproduce.py",
  "trainer.checkpoints": "trainer/checkpoints/main.py",
  "trainer.preflight": "trainer/preflight/main.py",
  "trainer.pjrt": "trainer/pjrt/main.py",
  "trainer.compare": "trainer/compare/main.py",
  "trainer.tune": "trainer/tune/main.py",
  "trainer.sweep": "trainer/sweep/main.py",
  "trainer.sweep_report": "trainer/sweep/report_main.py",
  "trainer.tracking": "trainer/tracking/main.py",
  "trainer.compat": "trainer/compat/__main__.py",
  "input_pipelines.make_vocabulary": "input_pipelines/make_vocabulary.py",
}

_COMPUTED = {"topology_lib.names()": topology.names}
_HEADER = ["| flag | default | meaning |", "|---|---|---|"]


def page() -> str:
  """Returns the page in Markdown: its part by hand as it is, its flags from the code."""
  lines = [MARK]
  for command, path in COMMANDS.items():
    tree = syntax.tree((draw.ROOT / path).read_text())
    first = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
    rows = [row for each in [tree, *_shared(tree)] for row in _rows(each)]
    lines += [f"## python -m {command}", "", first, ""]
    lines += [*_HEADER, *rows, ""] if rows else []
  return PAGE.read_text().partition(MARK)[0] + "\n".join(lines)


def _shared(tree: ast.Module) -> Iterator[ast.AST]:
  """Yields the definitions of flags that a command shares with others."""
  for node in ast.walk(tree):
    if not isinstance(node, ast.Call):
      continue
    called = ast.unparse(node.func)
    if called == "flags.adopt_module_key_flags":
      (path,) = (draw.ROOT / "trainer").rglob(f"{ast.unparse(node.args[0])}.py")
      yield syntax.tree(path.read_text())
    elif called.startswith("run_flags."):
      functions = syntax.tree((draw.ROOT / "trainer/cli/run_flags.py").read_text()).body
      name = called.removeprefix("run_flags.")
      yield next(each for each in functions if getattr(each, "name", "") == name)


def _rows(tree: ast.AST) -> Iterator[str]:
  """Yields the rows of the flags that a syntax tree defines."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("DEFINE_"):
      name, default, *rest = node.args
      meaning = _text(rest[-1]) if rest else ""
      if node.func.attr == "DEFINE_enum":
        values = ", ".join(f"`{value}`" for value in _values(tree, rest[0]))
        meaning = f"{values}. {meaning}"
      shown = ast.unparse(default).replace("trust.FOLDER", "'.'")
      shown = "" if shown in ("None", "''", "[]") else f"`{shown}`"
      yield f"| `--{_text(name)}` | {shown} | {meaning} |"


def _values(tree: ast.AST, values: ast.expr) -> list[str]:
  """Returns the values of an enum flag, a list or the name of a list in the file."""
  if isinstance(values, ast.Name):
    values = next(
      each.value
      for each in ast.walk(tree)
      if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == values.id
    )
  return ast.literal_eval(values)


def _text(node: ast.expr) -> str:
  if isinstance(node, ast.JoinedStr):
    text = "".join(
      str(part.value) if isinstance(part, ast.Constant) else _COMPUTED[ast.unparse(part.value)]()
      for part in node.values
    )
  else:
    text = str(ast.literal_eval(node))
  return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
  """Writes the page."""
  PAGE.write_text(page())


if __name__ == "__main__":
  main()
