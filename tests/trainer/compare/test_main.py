"""The command: flags that are wrong, and a merge of two machines' results."""

import pytest
from absl import flags
from absl.testing import flagsaver

from tests.trainer.compare import made_up
from trainer import errors
from trainer.compare import main, results


def run(*arguments):
  with flagsaver.flagsaver():
    main.main(flags.FLAGS(["program", *map(str, arguments)]))


def test_a_merge_of_two_machines_is_one_report(tmp_path, capsys):
  paths = [tmp_path / "laptop.jsonl", tmp_path / "box.jsonl"]
  rows = [made_up.row(1.0), made_up.row(0.25, "gpu", machine=made_up.BOX)]
  for path, row in zip(paths, rows, strict=True):
    results.append(str(path), row)
  run("--merge", *paths, f"--output={tmp_path / 'both'}")
  assert results.read(str(tmp_path / "both" / "results.jsonl")) == rows
  printed = capsys.readouterr().out
  assert "gpu (Tesla P100-PCIE-16GB)" in printed
  assert "0.00203 USD in all" in printed  # 20 steps of 0.25 s at 1.46 USD an hour
  for name in ("report.html", "results.csv", "times.png", "speedup.png", "costs.png"):
    assert (tmp_path / "both" / name).stat().st_size


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "Give --gin_file to measure, or --merge"),
    (["--gin_file=a.gin", "--merge=a.jsonl"], "and not both"),
    (["a.jsonl"], "Unexpected argument a.jsonl"),
    (["--merge=none.jsonl"], "none.jsonl"),
    (["--gin_file=none.gin"], "none.gin"),
    (["--gin_file=gin_configs/compare/small.gin", "--devices=cpuu"], "--devices=cpuu"),
    (["--gin_file=gin_configs/compare/small.gin", "--estimates=v9"], "--topology=v9"),
    (["--merge=a.jsonl", "--prices=none.csv"], "--prices=none.csv"),
  ],
)
def test_what_is_wrong_is_told(tmp_path, arguments, message):
  with pytest.raises(errors.SettingError, match=message):
    run(*arguments, f"--output={tmp_path / 'out'}")
