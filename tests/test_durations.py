"""The file of durations says which tests are quick, and is written of what was measured."""

import json
from types import SimpleNamespace

import pytest

from tests import durations


class Item:
  """Of a test: its name and its marks."""

  def __init__(self, nodeid, *marks):
    self.nodeid, self.marks = nodeid, list(marks)

  def get_closest_marker(self, name):
    return name if name in self.marks else None

  def add_marker(self, mark):
    self.marks.append(mark.name)


@pytest.fixture
def file(tmp_path, monkeypatch):
  path = tmp_path / "durations.json"
  monkeypatch.setattr(durations, "FILE", path)
  return path


def test_what_is_neither_slow_nor_long_is_quick(file):
  file.write_text(json.dumps({"tests/test_a.py::test_slow": 3.0}))
  items = [
    Item("tests/test_a.py::test_slow[cpu]"),
    Item("tests/test_a.py::test_new"),
    Item("tests/test_a.py::test_new_and_long", "long"),
  ]
  durations.mark_quick(items)
  assert [item.marks for item in items] == [[], ["quick"], ["long"]]


def test_functions_not_run_stay_unless_their_file_is_gone(monkeypatch, tmp_path):
  (tmp_path / "tests").mkdir()
  (tmp_path / "tests" / "test_a.py").touch()
  monkeypatch.setattr(durations, "FILE", tmp_path / "tests" / "durations.json")
  before = {"tests/test_a.py::test_1": 1.0, "tests/test_a.py::test_2": 1.0, "tests/gone.py::t": 1.0}
  found = {"tests/test_a.py::test_2": 0.01, "tests/test_a.py::test_3": 0.26}
  assert durations.merged(before, found) == {
    "tests/test_a.py::test_1": 1.0,
    "tests/test_a.py::test_3": 0.3,
  }


def test_the_slowest_case_of_a_function_is_written(file, monkeypatch):
  file.write_text("{}")
  monkeypatch.setattr(durations, "cpu_time", iter([0.0, 0.3, 1.0, 1.4, 2.0, 2.01]).__next__)
  recorder = durations.Recorder()
  for name in ("slow[cpu]", "slow[cpu:2]", "quick"):
    around = recorder.pytest_runtest_protocol(Item(f"tests/test_a.py::test_{name}"))
    next(around)
    with pytest.raises(StopIteration):
      around.send(True)
  recorder.pytest_sessionfinish(SimpleNamespace(config=SimpleNamespace()))
  assert json.loads(file.read_text()) == {"tests/test_a.py::test_slow": 0.4}


def test_a_worker_hands_on_what_it_has_measured(file):
  file.write_text("{}")
  worker = SimpleNamespace(workeroutput={"durations.json": {"tests/test_a.py::test_1": 2.0}})
  controller = durations.Recorder()
  controller.pytest_testnodedown(worker, None)
  controller.pytest_sessionfinish(SimpleNamespace(config=SimpleNamespace()))
  assert json.loads(file.read_text()) == {"tests/test_a.py::test_1": 2.0}
