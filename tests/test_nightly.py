"""The gate runs each branch on each kind of device, and leaves the tests that add none."""

import json
import types

import pytest

from tests import nightly
from tests.nightly import Branch, Run

LOOP = "trainer/loop/outer_loop.py"
OWN = "tests/trainer/loop/test_outer_loop.py::test_"
FAR = "tests/trainer/test_experiment.py::test_"
BRANCHES = [Branch(LOOP, line, line + 1) for line in range(4)]


def run(seconds=1.0, *kinds, elsewhere=0.0):
  return Run(seconds, kinds or ("one",), elsewhere)


def choose(runs, seen, alone=()):
  return nightly.choose(runs, BRANCHES, seen, alone)


def test_a_test_that_adds_no_branch_is_left():
  runs = {FAR + "all": run(2.0), FAR + "half": run(1.5), FAR + "other_half": run(1.4)}
  seen = {FAR + "all": {0, 1, 2, 3}, FAR + "half": {0, 1}, FAR + "other_half": {2, 3}}
  assert choose(runs, seen) == [FAR + "half", FAR + "other_half"]


def test_a_test_that_later_ones_make_needless_is_left():
  runs = {FAR + "middle": run(), FAR + "left": run(2.0), FAR + "right": run(2.0)}
  seen = {FAR + "middle": {1, 2}, FAR + "left": {0, 1}, FAR + "right": {2, 3}}
  assert choose(runs, seen) == [FAR + "middle"]


def test_quick_tests_come_first():
  runs = {FAR + "quick": run(0.05), FAR + "slow": run(3.0)}
  assert choose(runs, {FAR + "quick": {0, 1}, FAR + "slow": {0, 1}}) == [FAR + "slow"]
  assert choose(runs, {FAR + "quick": {0}, FAR + "slow": {0, 1}}) == []


def test_a_process_that_takes_little_changes_nothing():
  runs = {FAR + "quick": run(0.05), FAR + "checked": run(1.0, elsewhere=0.4)}
  assert choose(runs, {test: {0, 1} for test in runs}) == [FAR + "checked"]


def test_each_kind_of_device_has_its_branches():
  runs = {FAR + "one": run(), FAR + "cores": run(2.0, "several"), FAR + "both": run(9.0, "xla")}
  assert choose(runs, {test: {0, 1} for test in runs}) == []


def test_the_own_file_of_tests_runs_the_code():
  runs = {OWN + "own": run(5.0), FAR + "far": run(1.0)}
  assert choose(runs, {test: {0, 1} for test in runs}) == [FAR + "far"]


@pytest.mark.parametrize(
  ("name", "kept"),
  [
    (FAR + "starts", run(1.0, elsewhere=0.6)),
    (FAR + "alone", run()),
    ("tests/conformance/test_training.py::test_it_learns", run()),
    (FAR + "unseen", run()),
  ],
)
def test_some_tests_stay_whatever_they_add(name, kept):
  runs = {FAR + "quick": run(0.05), name: kept}
  seen = {FAR + "quick": {0, 1}, name: set() if "unseen" in name else {0}}
  assert choose(runs, seen, alone=[FAR + "alone"]) == []


@pytest.fixture
def file(tmp_path, monkeypatch):
  path = tmp_path / "nightly.json"
  monkeypatch.setattr(nightly, "FILE", path)
  return path


def test_what_is_left_is_long(file):
  file.write_text(json.dumps({"alone": [], "nightly": ["tests/test_a.py::test_1[cpu]"]}))
  marks = {f"tests/test_a.py::test_1[{device}]": [] for device in ("cpu", "cpu:2")}
  nightly.mark(
    types.SimpleNamespace(nodeid=name, add_marker=found.append) for name, found in marks.items()
  )
  assert [[mark.name for mark in found] for found in marks.values()] == [["long"], []]


def test_a_test_that_caught_a_mutation_alone_comes_back(file):
  file.write_text(json.dumps({"alone": ["b"], "nightly": ["a", "c"]}))
  nightly.bring_back({"a"})
  assert json.loads(file.read_text()) == {"alone": ["a", "b"], "nightly": ["c"]}


def test_some_tests_alone_cannot_be_compared():
  config = types.SimpleNamespace(option=types.SimpleNamespace(file_or_dir=["tests/docs"]))
  with pytest.raises(pytest.UsageError, match="tests/docs"):
    nightly.Recorder(config)


def test_names_are_those_of_tests_that_are_there():
  """A test that was renamed would be in the gate again, unseen."""
  found = json.loads(nightly.FILE.read_text())
  names = [name.partition("[")[0] for name in (*found["alone"], *found["nightly"])]
  sources = {name.partition("::")[0] for name in names}
  texts = {path: (nightly.ROOT / path).read_text() for path in sources}
  missing = [
    name for name in names if f"def {name.split('::')[-1]}(" not in texts[name.partition("::")[0]]
  ]
  assert not missing, f"run `pytest --choose`, or take these names out of {nightly.FILE.name}"
