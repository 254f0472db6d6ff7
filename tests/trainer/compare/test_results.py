"""results.jsonl: whole rows or none, and what a merge keeps."""

import dataclasses
import json

import pytest

from tests.trainer.compare import fake_rows
from trainer import errors
from trainer.compare import results


def test_rows_come_back_as_they_were(tmp_path):
  path = str(tmp_path / "results.jsonl")
  rows = [fake_rows.row(), fake_rows.failed(), fake_rows.row(load=1.5)]
  for row in rows:
    results.append(path, row)
  assert results.read(path) == rows


def test_cut_off_line_is_ignored_and_then_overwritten(tmp_path):
  path = tmp_path / "results.jsonl"
  first, second = fake_rows.row(), fake_rows.row(device="gpu")
  results.append(str(path), first)
  with path.open("a") as file:
    file.write('{"workload": "n')
  assert results.read(str(path)) == [first]
  results.append(str(path), second)
  assert results.read(str(path)) == [first, second]


@pytest.mark.parametrize(
  ("change", "problem"),
  [
    (lambda line: line[:-5], "Expecting|Unterminated"),
    (lambda line: line.replace('"batch_size": 10', '"batch_size": "ten"'), "expected an int"),
    (lambda line: line.replace('"mode"', '"sort"'), "'mode' is missing"),
  ],
)
def test_a_damaged_line_is_named(tmp_path, change, problem):
  path = tmp_path / "results.jsonl"
  path.write_text(change(json.dumps(dataclasses.asdict(fake_rows.row()))) + "\n")
  with pytest.raises(errors.FileDamagedError, match=rf"results.jsonl, line 1 .*({problem})"):
    results.read(str(path))


def test_a_missing_file_is_an_error_only_where_it_is_needed(tmp_path):
  assert results.read_if_there(str(tmp_path / "none.jsonl")) == []
  with pytest.raises(errors.SettingError, match="none.jsonl"):
    results.read(str(tmp_path / "none.jsonl"))


def test_a_merge_keeps_machines_apart_and_the_newest_of_one():
  old, new = fake_rows.row(1.0), fake_rows.row(2.0, time="2026-02-01T00:00:00+00:00")
  other = fake_rows.row(3.0, machine=fake_rows.BOX)
  virtual = fake_rows.row(4.0, "cpu:8")
  assert results.merged([[new, virtual], [old, other]]) == [new, virtual, other]
  assert results.merged([[old], [new]]) == [new]


def test_other_settings_are_another_result():
  one, two = (
    fake_rows.row(),
    fake_rows.row(settings={"gin_file": "net.gin", "bindings": ["a.b = 1"]}),
  )
  assert results.merged([[one, two]]) == [one, two]
  assert one.key != dataclasses.replace(one, precision="bfloat16").key


def test_the_name_of_the_hardware_makes_no_other_result():
  old, new = (
    fake_rows.row(hardware=name, time=f"2026-02-0{day}T00:00:00+00:00")
    for day, name in ((1, "one name"), (2, "another name"))
  )
  assert results.merged([[old, new]]) == [new]
