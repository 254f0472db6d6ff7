"""Mutations are of code that runs, and leave Python."""

import json

import pytest

from tests import nightly
from tests.slow import mutations


def after(source):
  return [each.after.strip() for each in mutations.mutations("a.py", source)]


@pytest.mark.parametrize(
  ("line", "changed"),
  [
    ("x = a < b", ["x = a >= b"]),
    ("x = a is b", ["x = a is not b"]),
    ("x = a and b", ["x = (a or b)"]),
    ("x = a - b", ["x = (a + b)"]),
    ("x = not a", ["x = bool(a)"]),
    ("x = False", ["x = True"]),
    ("x = 2.5", ["x = 3.5"]),
    ("return a", ["return None"]),
    ("call()", ["pass"]),
    ("x = a if b else c", ["x = c if b else a"]),
    ("x = é < b", ["x = é >= b"]),
    ('raise ValueError(f"{a + 1}")', []),
    ("x: Literal[3] = a", []),
    ("x = a < b < c", []),
  ],
)
def test_the_kinds(line, changed):
  assert after(f"def f(a, b, c):\n  {line}\n") == changed


def test_code_outside_of_functions_stays():
  assert after("LIMIT = 3\n@cache(4)\ndef f(a=5) -> Literal[6]:\n  pass\n") == []


def test_a_measurement_is_needed(tmp_path, monkeypatch):
  monkeypatch.setattr(nightly, "_RUNS", tmp_path / "runs.json")
  with pytest.raises(SystemExit, match=r"runs\.json is missing: run `pytest --choose` first"):
    mutations.Tests()


def test_the_gate_comes_first_and_the_own_file_of_tests(tmp_path, monkeypatch):
  own, unseen = (f"tests/trainer/test_a.py::test_{name}" for name in ("own", "unseen"))
  seconds = {"far": 1.0, own: 9.0, unseen: 9.1, "near": 0.1, "left": 0.1, "other": 0.1, "none": 0.1}
  runs = {test: nightly.Run(each, ("one",), 0.0) for test, each in seconds.items()}
  branches = [nightly.Branch("trainer/a.py", 3, 4), nightly.Branch("trainer/a.py", 7, -6)]
  seen = {"far": {0}, own: {0, 1}, "near": {0}, "left": {0}, "other": {1}}
  monkeypatch.setattr(nightly, "read_branches", lambda: (branches, seen))
  monkeypatch.setattr(nightly, "read_runs", lambda: runs)
  monkeypatch.setattr(nightly, "FILE", tmp_path / "nightly.json")
  nightly.FILE.write_text(json.dumps({"alone": [], "nightly": ["left"]}))
  tests = mutations.Tests()
  assert tests.of(mutations.Mutation("trainer/a.py", 4, "", "")) == (
    [own, unseen, "near", "far"],
    ["left"],
  )
  assert tests.of(mutations.Mutation("trainer/a.py", 7, "", "")) == ([own, unseen, "other"], [])


def test_the_first_test_that_fails_is_named(tmp_path):
  (tmp_path / "test_a.py").write_text("def test_1():\n  pass\ndef test_2():\n  assert False\n")
  assert mutations.failure(tmp_path, ["test_a.py::test_1"]) == ""
  assert mutations.failure(tmp_path, ["test_a.py"]) == "test_a.py::test_2"
  assert mutations.failure(tmp_path, ["test_b.py"]).startswith("pytest's exit code")
  assert mutations.failure(tmp_path, []) == ""


def test_what_is_no_python_is_left_out(tmp_path, monkeypatch):
  monkeypatch.setattr(nightly, "ROOT", tmp_path)
  (tmp_path / "a.py").write_text("def f(a, b):\n  return a and (c := b)\n")
  found = mutations.mutations("a.py", (tmp_path / "a.py").read_text())
  assert {each.after.strip() for each in found} == {"return None", "return (a or c := b)"}
  assert [each.after.strip() for each in filter(mutations.is_python, found)] == ["return None"]


def test_a_file_that_has_changed_meanwhile_is_told():
  with pytest.raises(SystemExit, match=r"a\.py has changed since `pytest --choose`"):
    mutations.changed("x = 1\n", mutations.Mutation("a.py", 1, "x = 2", "x = 3"))
