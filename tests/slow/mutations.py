"""Changes the code at random places, and sees whether the gate notices.

    pytest --choose                                        # which tests run which branches
    python -m tests.slow.mutations --count=100 --seed=7

For each mutation it runs tests of the gate that run the changed line, those of the code's own file
of tests first, until one fails. If none fails, it runs those tests that the gate leaves to the
nightly workflow. A mutation that one of them alone catches brings this test back into the gate: the
end writes it to tests/nightly.json, from "nightly" to "alone". Octet's own tree stays as it is.

A mutation negates a condition, exchanges an operator, adds 1 to a number, or leaves out a call or a
result. Many that survive are equivalent to the code: read them before you write a test.
"""

import argparse
import ast
import itertools
import json
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from typing import NamedTuple

from tests import nightly, warm

# What a set of tests may take, in seconds of CPU time as --choose measured it, and in number.
MOST_SECONDS, MOST_TESTS = 60, 250
TIMEOUT_SECS = 300  # for the whole set, after which it counts as hanging

COMPARISONS = {
  ast.Eq: "!=",
  ast.NotEq: "==",
  ast.Lt: ">=",
  ast.GtE: "<",
  ast.Gt: "<=",
  ast.LtE: ">",
  ast.In: "not in",
  ast.NotIn: "in",
  ast.Is: "is not",
  ast.IsNot: "is",
}
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "+"}


class Mutation(NamedTuple):
  """A line of a file, a path below the root, and what it becomes."""

  file: str
  line: int
  before: str
  after: str


def mutations(file: str, source: str) -> list[Mutation]:
  """Returns the mutations of a file, each of one line of a function."""
  lines = source.split("\n")
  found = []
  for node in _nodes(ast.parse(source)):
    text = _replacement(source, node)
    if text is None:
      continue
    start, end = node.col_offset, node.end_col_offset
    line = lines[node.lineno - 1].encode()  # offsets count bytes
    after = (line[:start] + text.encode() + line[end:]).decode()
    found.append(Mutation(file, node.lineno, lines[node.lineno - 1], after))
  return found


def changed(source: str, mutation: Mutation) -> str:
  """Returns the text of a file with a mutation."""
  lines = source.split("\n")
  if lines[mutation.line - 1] != mutation.before:
    raise SystemExit(f"{mutation.file} has changed since `pytest --choose`: run it again.")
  return "\n".join([*lines[: mutation.line - 1], mutation.after, *lines[mutation.line :]])


def is_python(mutation: Mutation) -> bool:
  """Returns whether the file with the mutation can be compiled; `not x := y` cannot."""
  text = changed((nightly.ROOT / mutation.file).read_text(), mutation)
  try:
    compile(text, mutation.file, "exec")
  except SyntaxError:
    return False
  return True


def _nodes(tree):
  """Yields the nodes within functions, but for messages, annotations, decorators and raises."""
  functions = (ast.FunctionDef, ast.AsyncFunctionDef)
  waiting = [(tree, False)]
  while waiting:
    node, is_inside = waiting.pop()
    is_code = isinstance(node, ast.expr | ast.stmt)  # other nodes, such as Load, have no place
    if is_inside and is_code and node.lineno == node.end_lineno:
      yield node
    for name, value in ast.iter_fields(node):
      if isinstance(node, (ast.JoinedStr, ast.Raise)) or name in (
        "annotation",
        "returns",
        "decorator_list",
      ):
        continue
      for child in value if isinstance(value, list) else [value]:
        if isinstance(child, ast.AST):
          waiting.append((child, is_inside or (isinstance(node, functions) and name == "body")))


def _replacement(source, node):
  """Returns what a node becomes, None if there is no mutation of its kind."""

  def text(part):
    return ast.get_source_segment(source, part)

  match node:
    case ast.Compare(ops=[operator], comparators=[right]):
      return f"{text(node.left)} {COMPARISONS[type(operator)]} {text(right)}"
    case ast.BoolOp(values=[left, right]):
      return f"({text(left)} {'or' if isinstance(node.op, ast.And) else 'and'} {text(right)})"
    case ast.BinOp() if type(node.op) in OPERATORS:
      return f"({text(node.left)} {OPERATORS[type(node.op)]} {text(node.right)})"
    case ast.UnaryOp(op=ast.Not()):
      return f"bool({text(node.operand)})"
    case ast.Constant(value=bool(value)):
      return str(not value)
    case ast.Constant(value=int(value) | float(value)):
      return repr(value + 1)
    case ast.Return(value=ast.AST()):
      return "return None"
    case ast.Expr(value=ast.Call()):
      return "pass"
    case ast.IfExp():
      return f"{text(node.orelse)} if {text(node.test)} else {text(node.body)}"
  return None


class Tests:
  """Which tests run a line, in the gate and in the nightly workflow."""

  def __init__(self) -> None:
    self._runs = nightly.read_runs()
    branches, self._seen = nightly.read_branches()
    self._branches_of_line: dict[tuple[str, int], set[int]] = {}
    for number, branch in enumerate(branches):
      for line in (branch.start, branch.end):
        self._branches_of_line.setdefault((branch.file, line), set()).add(number)
    self._nightly = set(json.loads(nightly.FILE.read_text())["nightly"])

  def lines(self) -> set[tuple[str, int]]:
    """Returns the lines that a test runs."""
    return set(self._branches_of_line)

  def of(self, mutation: Mutation) -> tuple[list[str], list[str]]:
    """Returns the tests of the gate to run, then those of the nightly workflow."""
    numbers = self._branches_of_line[mutation.file, mutation.line]
    own = nightly.own_tests(mutation.file)
    # A test that ran no branch may look at what the parameters of tests computed at the collection.
    found = [
      test
      for test in self._runs
      if self._seen.get(test, set()) & numbers or (test.startswith(own) and test not in self._seen)
    ]
    found.sort(key=lambda test: (not test.startswith(own), self._runs[test].seconds, test))
    return tuple(
      self._first(test for test in found if (test in self._nightly) == is_nightly)
      for is_nightly in (False, True)
    )

  def _first(self, tests):
    chosen, seconds = [], 0.0
    for test in tests:
      seconds += self._runs[test].seconds
      if len(chosen) == MOST_TESTS or (chosen and seconds > MOST_SECONDS):
        break
      chosen.append(test)
    return chosen


def failure(tree: pathlib.Path, tests: list[str]) -> str:
  """Runs tests in a tree until one fails; returns its name, or what ended pytest, or ""."""
  if not tests:
    return ""
  words = ("-q", "-x", "-n", "0", "-m", "", "--tb=no", "-p", "no:cacheprovider", *tests)
  try:
    done = warm.run("-m", "pytest", *words, cwd=tree, timeout=TIMEOUT_SECS)
  except subprocess.TimeoutExpired:
    return "a timeout"
  if done.returncode == 0:
    return ""
  failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.M)
  return failed[1] if failed else f"pytest's exit code {done.returncode}"


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--count", type=int, default=30)
  parser.add_argument("--seed", type=int, default=7)
  parser.add_argument("--part", default="1/1", help="such as 2/3: each third one, from the second")
  flags = parser.parse_args()
  part, parts = map(int, flags.part.split("/"))
  tests = Tests()
  lines = tests.lines()
  places = [
    each
    for file in sorted({file for file, _ in lines if file.endswith(".py")})
    for each in mutations(file, (nightly.ROOT / file).read_text())
    if (file, each.line) in lines
  ]
  shuffled = random.Random(flags.seed).sample(places, len(places))
  chosen = list(itertools.islice(filter(is_python, shuffled), flags.count))
  print(f"{flags.count} of {len(places)} mutations")
  counts, alone = Counter(), set()
  with tempfile.TemporaryDirectory(prefix="mutations_") as folder:
    tree = pathlib.Path(folder, "octet")
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=nightly.ROOT, text=True)
    for name in names.split("\0")[:-1]:
      (tree / name).parent.mkdir(parents=True, exist_ok=True)
      shutil.copy2(nightly.ROOT / name, tree / name)
    for mutation in chosen[part - 1 :: parts]:
      gate, others = tests.of(mutation)
      path = tree / mutation.file
      source = path.read_text()
      path.write_text(changed(source, mutation))
      result, caught = "the gate", failure(tree, gate)
      if not caught:
        result, caught = "nightly tests alone", failure(tree, others)
        alone.update({caught} & set(others))
      result = result if caught else "nothing"
      path.write_text(source)
      counts[result] += 1
      place = f"{mutation.file}:{mutation.line}"
      print(f"{place}  {mutation.before.strip()}  ->  {mutation.after.strip()}")
      print(f"  caught by {result}{': ' * bool(caught)}{caught}", flush=True)
  for result, count in counts.most_common():
    print(f"caught by {result}: {count}")
  nightly.bring_back(alone)


if __name__ == "__main__":
  main()
