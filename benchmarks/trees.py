"""Compares Octet here with Octet in another folder, such as an older commit: the cost of a change.

    git worktree add /tmp/before HEAD~20
    python -m benchmarks.run trees --tree=/tmp/before --cases=digits,cifar128

Each side imports `trainer`, `models` and `input_pipelines` from its own folder.
"""

import functools
import pathlib
import sys

from benchmarks import cases, results, sides, start_up, train

ROOT = pathlib.Path(__file__).resolve().parents[1]


def measure(tree, names, rounds=10):
  """Returns rows for the cases' training, on the CPU and on eight virtual cores.

  Args:
    tree: the other folder; "": no rows.
    names: the cases' names.
    rounds: slices of each side.
  """
  rows = []
  for case in (cases.CASES[name] for name in names if tree):
    for device in ("cpu", "cpu:8"):
      arguments = {"case": case, "precision": "float32", "device": device}
      slices = sides.alternate(
        {
          "octet": sides.Side(octet, arguments | {"tree": str(ROOT)}),
          "other": sides.Side(octet, arguments | {"tree": tree}),
        },
        rounds,
      )
      rows.append(
        results.Row(
          "trees",
          f"{case.title}, {device}",
          f"Octet in {tree}",
          sides.ratios(slices, "other"),
          at_least=0.99,
          note=sides.note(slices, case.steps * case.batch_size, "other"),
        )
      )
  return rows


def measure_start(tree, rounds=10):
  """Returns the row of the time to the first training step; see `measure`."""
  if not tree:
    return []
  to_first_step = start_up.command_to_first_step
  pairs = start_up.Pairs(rounds, to_first_step, functools.partial(to_first_step, tree))
  return [pairs.row("digits, command to first training step", f"Octet in {tree}", 1.01)]


def octet(turns, tree, **arguments):
  """`train.octet` with a folder's packages."""
  sys.path.insert(0, tree)
  import trainer

  if not pathlib.Path(trainer.__file__).is_relative_to(tree):
    raise RuntimeError(f"Python imported trainer from {trainer.__file__}, and not from {tree}")
  train.octet(turns, **arguments)
