"""The sides of the comparison of trainings: what each loads, and a row for each comparison."""

import subprocess
import sys

from benchmarks import cases, sides, train


def test_the_data_come_without_tensorflow():
  """Which may not load in the process of the side that is PyTorch."""
  code = """
import sys
from benchmarks import cases, sides, train
for case in cases.CASES.values():
  images, labels = case.data()
  assert images.shape == (len(labels), *case.shape), case
print([name for name in ("tensorflow", "keras") if name in sys.modules])
"""
  run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
  assert run.stdout == "[]\n", run.stderr


def test_a_side_that_fails_has_rows_without_a_figure():
  case = cases.CASES["digits"]
  slices = {
    name: sides.Slices([1.0], [2**30], 2**30) for name in train._sides(case, train.PRECISIONS)
  }
  slices["torch float32"].failed = "its process died of SIGABRT"
  rows = {(row.case, row.against): row for row in train._rows(case, train.PRECISIONS, slices)}
  failed = rows.pop(("digits MLP, batch 32, float32", "PyTorch"))
  assert (failed.ratios, failed.note) == ((), "torch float32: its process died of SIGABRT")
  assert all(row.ratios == (1.0,) for row in rows.values())


def test_on_a_gpu_all_sides_are_there_and_nothing_is_wanted():
  case = cases.CASES["cifar128"]
  found = train._sides(case, train.PRECISIONS, "gpu")
  assert {side.arguments["device"] for side in found.values()} == {"gpu", "xla:gpu:1"}
  slices = {name: sides.Slices([1.0], [2**30], 2**30) for name in found}
  rows = train._rows(case, train.PRECISIONS, slices, "gpu")
  assert {row.bound for row in rows} == {""}
  assert {row.against for row in rows} >= {"Keras fit", "PyTorch", "Octet by TensorFlow"}
