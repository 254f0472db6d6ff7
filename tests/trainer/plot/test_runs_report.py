"""The page on several runs: one table, sorted by the reader, and all curves over each other."""

import json
import re

import pytest

from tests.trainer.plot import test_curves, test_run_report
from trainer import errors
from trainer.plot import curves, runs_report


def write(folder, config, seed=1, **more):
  test_curves.write(folder, **more)
  (folder / "operative_config.gin").write_text(config)
  environment = {"started": "now", "command": f"python {folder}", "seed": seed, "earlier": []}
  (folder / "environment.json").write_text(json.dumps(environment))
  return str(folder)


def page(folders):
  text = runs_report.page(folders, curves.collect(folders))
  found = test_run_report.Page(text)
  assert found.open == []
  return text, found


def test_each_run_has_a_row_with_its_differences_and_results(tmp_path):
  folders = [
    write(tmp_path / "slow", "Adam.learning_rate = 0.001\nrun.train_steps = 300\n"),
    write(tmp_path / "fast", "Adam.learning_rate = 0.01\nrun.train_steps = 300\n", seed=2),
  ]
  text, found = page(folders)
  (table,) = found.tables
  assert table[0][:6] == ["run", "learning_rate", "seed", "step", "accuracy, eval", "loss, eval"]
  assert table[1][:5] == ["slow", "0.001", "1", "300", "0.9"]
  assert table[2][:5] == ["fast", "0.01", "2", "300", "0.9"]
  assert '<table class="sortable">' in text
  assert found.headings == ["2 runs", "Curves"]
  assert re.findall(r'<figure><svg[^>]* aria-label="(.*?) by step"', text)[:2] == [
    "loss",
    "accuracy",
  ]
  panel = re.findall("<figure>(.*?)</figure>", text, re.S)[0]
  assert {"slow", "fast", "train", "eval"} <= set(re.findall("<text[^>]*>(.*?)</text>", panel))


def test_the_page_needs_no_network(tmp_path):
  text, found = page([write(tmp_path / name, "") for name in "ab"])
  assert found.references == [each for each in found.references if each.startswith("#")]
  assert not re.search(r"<script[^>]+src|<link|@import", text)


def test_runs_that_are_alike_are_said_to_be(tmp_path):
  text, found = page([write(tmp_path / name, "a.b = 1\n") for name in "ab"])
  assert found.tables[0][0][:2] == ["run", "step"]
  assert "The runs have the same settings." in text


def test_a_run_without_what_another_has_has_an_empty_cell(tmp_path):
  other = tmp_path / "other"
  test_curves.write(other)  # it has written no configuration and no environment
  _, found = page([write(tmp_path / "one", "a.b = 1\n"), str(other)])
  assert [row[1] for row in found.tables[0]] == ["b", "1", ""]


def test_bindings_are_as_gin_writes_them():
  text = """
import x
NAME = 'a'
train/f.a = @g/h()
f.b = [%NAME, @k, (1,),
       {'c': 2.5}]
"""
  assert runs_report.bindings(text) == {
    "NAME": "'a'",
    "train/f.a": "@g/h()",
    "f.b": "[%NAME, @k, (1,), {'c': 2.5}]",
  }


def test_a_damaged_configuration_is_told(tmp_path):
  with pytest.raises(errors.SettingError):
    page([write(tmp_path / "a", "a.b = ["), write(tmp_path / "b", "")])
