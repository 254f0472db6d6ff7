"""Gin files of workloads: the shipped ones load, wrong ones are told."""

import pathlib
import subprocess
import sys

import pytest

from trainer import config, errors
from trainer.compare import workloads

ROOT = pathlib.Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "gin_configs" / "compare").glob("*.gin"))

ONE = 'compare.workloads = [@Workload()]\nWorkload.name = "n"\nWorkload.gin_file = "a.gin"\n'


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_workloads_bindings_fit_their_experiments(path):
  cases = workloads.load([str(path)])
  for load in {case.workload.name: case.workload for case in cases}.values():
    config.load([load.gin_file], [*load.bindings, "run.train_batch_size = 8"])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_header_has_the_command(path):
  header = path.read_text().split("\n\n", 1)[0]
  assert f"python -m trainer.compare --gin_file=gin_configs/compare/{path.name}" in header


def test_each_size_is_a_case():
  cases = workloads.load(
    [],
    [
      ONE,
      "Workload.mode = 'predict'",
      "Workload.batch_sizes = [8, 16]",
      "Workload.examples = [1, 50]",
    ],
  )
  sizes = [(case.batch_size, case.examples) for case in cases]
  assert sizes == [(8, 1), (8, 50), (16, 1), (16, 50)]
  assert cases[0].title == "n, 1 examples"


@pytest.mark.parametrize(
  ("binding", "message"),
  [
    ("compare.workloads = []", "compare.workloads is"),
    ("compare.workloads = [3]", "compare.workloads is"),
    ("compare.workloads = [@Workload(), @Workload()]", "two Workloads to train have the name 'n'"),
    ("Workload.mode = 'evaluate'", "mode is 'evaluate'"),
    ("Workload.unit = 'year'", "unit is 'year'"),
    ("Workload.batch_sizes = 128", "batch_sizes is 128"),
    ("Workload.batch_sizes = []", "give batch_sizes"),
    ("Workload.batch_sizes = [0]", "greater than 0"),
    ("Workload.examples = [8]", "examples if and only if it predicts"),
    ("Workload.slices = 0", "slices is .*; expected an int greater than 0"),
    ("Workload.epochs = 3", "epochs need epoch_examples"),
    ("Workload.slics = 3", "Did you mean slices"),
  ],
)
def test_what_is_wrong_is_told(binding, message):
  with pytest.raises(errors.SettingError, match=message):
    workloads.load([], [ONE, binding])


def test_launching_process_does_not_import_tensorflow():
  code = (
    "import sys; from trainer.compare import workloads, runner, report; "
    "workloads.load(['gin_configs/compare/articles.gin']); print('tensorflow' in sys.modules)"
  )
  done = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
  )
  assert done.stdout == "False\n"
