"""Counts what a reader of a step, an evaluation or a save has to read, in a real run.

    python -m docs.tools.walks                   # of this tree
    python -m docs.tools.walks --root=../other   # of another one

The command trains the digits for two steps on a CPU, with an evaluation, and records which
functions of trainer/ the run enters: for a step and an evaluation, from the call of the input_fn
on, with the trace; for a save, also in the thread that writes. It counts the lines of code of these
functions, without blank lines, comments and docstrings.
"""

import argparse
import ast
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from docs.tools import draw, readability

# Runs the command in a process whose `record` sees each call and return, and writes its `found`.
_BEFORE = """
import json, os, runpy, sys, threading, trainer
root = os.path.dirname(trainer.__file__) + os.sep
"""
_AFTER = """
output, sys.argv = sys.argv[1], sys.argv[1:]
sys.setprofile(record)
try:
  runpy.run_module("trainer.main", run_name="__main__", alter_sys=True)
except SystemExit as end:
  assert not end.code, end.code
finally:
  sys.setprofile(None)
  with open(output, "w") as file:
    json.dump(list(found), file)
"""

# Finds the functions that each walk enters: (walk, file, line).
_FUNCTIONS = """
BEGINS = {
  ("loop/training.py", "_run_device_loop"): "step",
  ("evaluation/evaluator.py", "evaluate"): "evaluation",
  ("checkpoints/saver.py", "save"): "save",
}
walk, begun, found = None, None, {}

def record(frame, event, argument):
  global walk, begun
  if event == "return" and frame is begun:
    walk = begun = None
  code = frame.f_code
  if event != "call" or not code.co_filename.startswith(root) or code.co_name == "<module>":
    return
  file = code.co_filename.removeprefix(root)
  is_main = threading.current_thread() is threading.main_thread()
  if is_main and walk is None:
    walk = BEGINS.get((file, code.co_name))
    if (file, code.co_name) == ("programs/loop_input.py", "call_and_trace"):
      walk = {"train": "step", "eval": "evaluation"}.get(frame.f_locals["kind"])
    begun = frame if walk else None
  entered = walk if is_main else "save"  # The other thread writes checkpoints.
  if entered:
    found[entered, file, code.co_firstlineno] = True

threading.setprofile(record)
"""

_BINDINGS = ("run.train_steps = 2", "run.eval_steps = 1", "run.exporters = []")


def record(root: pathlib.Path, recorder: str) -> list[Any]:
  """Trains the digits for two steps in a tree, and returns what a recorder has found.

  Args:
    root: of the tree.
    recorder: Python that defines a profile function `record`, and `found`, which JSON can hold. It
      may use `root`, the folder of trainer/.
  """
  program = _BEFORE + recorder + _AFTER
  with tempfile.TemporaryDirectory() as folder:
    output = os.path.join(folder, "entered.json")
    subprocess.run(
      [
        *(sys.executable, "-c", program, output, "--gin_file=gin_configs/digits.gin"),
        *(f"--model_dir={folder}/run", "--device=cpu"),
        *(f"--gin_bindings={binding}" for binding in _BINDINGS),
      ],
      cwd=root,
      env={**os.environ, "PYTHONPATH": str(root)},
      check=True,
      capture_output=True,
      timeout=600,
    )
    return json.loads(pathlib.Path(output).read_text())


def code_lines(source: str, first_lines: Iterable[int]) -> int:
  """Returns the lines of code of functions, by their first lines, decorators included."""
  tree = ast.parse(source)
  kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
  functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]
  wanted = set(first_lines)
  lines: set[int] = set()
  for node in functions:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    if first in wanted:
      lines.update(range(first, (node.end_lineno or first) + 1))
  return len(lines & readability.numbers_of_code(source))


def count(root: pathlib.Path) -> Mapping[str, tuple[int, int]]:
  """Returns walk → (number of files, lines of code) of a tree."""
  walks: dict[str, dict[str, list[int]]] = collections.defaultdict(
    lambda: collections.defaultdict(list)
  )
  for walk, file, line in record(root, _FUNCTIONS):
    walks[walk][file].append(line)
  return {
    walk: (
      len(files),
      sum(code_lines((root / "trainer" / file).read_text(), of) for file, of in files.items()),
    )
    for walk, files in walks.items()
  }


def main() -> None:
  """Prints the figures."""
  parser = argparse.ArgumentParser()
  parser.add_argument("--root", type=pathlib.Path, default=draw.ROOT)
  for walk, (files, lines) in count(parser.parse_args().root.resolve()).items():
    print(f"| {walk} | {files} | {lines} |")


if __name__ == "__main__":
  main()
