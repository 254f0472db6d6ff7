"""The command: flags that are wrong, and a merge of two machines' results."""

import pytest

from tests import warm
from tests.trainer.compare import fake_rows
from trainer.compare import results


def run(*arguments):
  """Runs the command in a process of its own: flags of two commands have equal names."""
  return warm.run("-m", "trainer.compare", *arguments)


def test_a_merge_of_two_machines_is_one_table(tmp_path):
  paths = [tmp_path / "laptop.jsonl", tmp_path / "box.jsonl"]
  rows = [fake_rows.row(1.0), fake_rows.row(0.25, "gpu", machine=fake_rows.BOX)]
  for path, row in zip(paths, rows, strict=True):
    results.append(str(path), row)
  done = run(*(f"--merge={path}" for path in paths), f"--output={tmp_path / 'both'}")
  assert done.returncode == 0, done.stderr
  assert results.read(str(tmp_path / "both" / "results.jsonl")) == rows
  assert "gpu (Tesla P100-PCIE-16GB)" in done.stdout
  assert "0.00203 USD in all" in done.stdout  # 20 steps of 0.25 s at 1.46 USD an hour
  assert (tmp_path / "both" / "times.png").stat().st_size


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "Give --gin_file to measure, or --merge"),
    (["--gin_file=a.gin", "--merge=a.jsonl"], "and not both"),
    (["a.jsonl"], "expected two"),
    (["--gin_file=a.gin", "a.jsonl"], "Unexpected argument a.jsonl"),
    (["--merge=none.jsonl"], "none.jsonl"),
    (["--gin_file=none.gin"], "none.gin"),
    (["--gin_file=gin_configs/compare/small.gin", "--devices=cpuu"], "--devices=cpuu"),
    (["--merge=a.jsonl", "--prices=none.csv"], "--prices=none.csv"),
  ],
)
def test_what_is_wrong_is_told(tmp_path, arguments, message):
  done = run(*arguments, f"--output={tmp_path / 'out'}")
  assert done.returncode == 2
  (line,) = done.stderr.splitlines()
  assert message in line
