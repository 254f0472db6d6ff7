"""Public functions have types, and type checkers find the names that `trainer` exports."""

import ast
import fnmatch
import pathlib
import tomllib

import trainer
from tests import sources


def files():
  """The files whose public functions must have types: all whose ANN rules ruff does not ignore."""
  ruff = tomllib.loads((sources.ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
  ignored = [pattern for pattern, rules in ruff["per-file-ignores"].items() if "ANN" in rules]
  found = sources.files("trainer", "models", "input_pipelines")
  return [path for path in found if not any(fnmatch.fnmatch(path, each) for each in ignored)]


def untyped(body, within_class=False):
  """The names of the public functions and methods that lack the type of an argument or result."""
  for node in body:
    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
      yield from (f"{node.name}.{name}" for name in untyped(node.body, within_class=True))
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
      continue
    if node.name.startswith("_") and not (within_class and node.name.endswith("__")):
      continue
    given = node.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    is_static = any(getattr(each, "id", "") == "staticmethod" for each in node.decorator_list)
    own = arguments[1:] if within_class and not is_static else arguments
    if node.returns is None or any(each and each.annotation is None for each in own):
      yield node.name


def test_public_functions_have_types():
  assert sources.breaches(files(), lambda path: untyped(sources.tree(path).body)) == {}


def test_the_rule_finds_what_breaks_it():
  source = """
def f(a): ...
def g(a: int) -> int: ...
def h(*, a: int, **b) -> int: ...
def _private(a): ...
class A:
  def __init__(self, a): ...
  def m(self) -> int: ...
  def n(self): ...
  @staticmethod
  def s(a) -> int: ...
class _B:
  def m(self): ...
"""
  assert list(untyped(ast.parse(source).body)) == ["f", "h", "A.__init__", "A.n", "A.s"]


def test_type_checkers_find_the_names_where_they_are():
  tree = ast.parse(pathlib.Path(trainer.__file__).read_text())
  [block] = [node for node in tree.body if isinstance(node, ast.If)]
  assert block.test.id == "TYPE_CHECKING"
  shown = {alias.asname: node.module for node in block.body for alias in node.names}
  assert shown == trainer._HOMES
