"""Files of evaluation reports: their names, the newest ones, and damage."""

import numpy as np
import pytest

from trainer import errors
from trainer.reporting import evaluation_reports


def write(folder, evaluation="", step=10, **arrays):
  report = {
    "evaluation": evaluation,
    "step": step,
    "kind": evaluation_reports.CLASSES,
    "examples": 3,
    "metrics": {"loss": {"value": 0.5, "low": None, "high": None}},
    "notes": [],
    "classes": ["ant", "bee"],
  }
  path = evaluation_reports.write(str(folder), report, arrays or {"label": np.arange(3)})
  return report, path


NAMES = ["", "test", "eval", "a/b", "../up", "x-20", "a.json", "größe %2F", "."]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_an_evaluation_comes_back(tmp_path, name):
  _, path = write(tmp_path / "run", name, 7)
  assert evaluation_reports.steps_of(str(tmp_path / "run")) == {name: [7]}
  assert evaluation_reports.read(path)["evaluation"] == name
  assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_the_newest_of_each_evaluation_the_nameless_first(tmp_path):
  for name, step in [("b", 5), ("", 9), ("", 100), ("b", 20), ("a", 3)]:
    write(tmp_path, name, step)
  (tmp_path / "evaluation_reports" / "eval-final.json").write_text("{}")
  found = evaluation_reports.newest(str(tmp_path))
  assert [(each["evaluation"], each["step"]) for each in found] == [("", 100), ("a", 3), ("b", 20)]
  assert evaluation_reports.newest(str(tmp_path / "none")) == []


def test_a_number_that_is_not_defined_is_null(tmp_path):
  report, path = write(tmp_path)
  assert '"low": null' in (tmp_path / "evaluation_reports" / "eval-10.json").read_text()
  assert evaluation_reports.read(path) == report


def test_arrays_come_back_with_their_dtypes(tmp_path):
  arrays = {"label": np.int32([1, 0]), "probabilities": np.float32([[0.1, 0.9], [1, 0]])}
  write(tmp_path, **arrays)
  found = evaluation_reports.observed(str(tmp_path), "", 10)
  assert found.keys() == arrays.keys()
  for name, array in arrays.items():
    np.testing.assert_array_equal(found[name], array, strict=True)


def flipped(content, place):
  return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


DAMAGES = {
  "missing": None,
  "empty": lambda content: b"",
  "cut off": lambda content: content[: len(content) // 2],
  "not a zip": lambda content: b"label",
  # Inside of the compressed data, where zlib finds the damage before the checksum does.
  "changed": lambda content: flipped(content, content.index(b"label.npy") + 40),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_arrays_are_named_with_what_to_do(tmp_path, damage):
  write(tmp_path, label=np.arange(1000) % 7)
  path = tmp_path / "evaluation_reports" / "eval-10.npz"
  path.unlink() if damage is None else path.write_bytes(damage(path.read_bytes()))
  with pytest.raises(errors.FileDamagedError, match=r"eval-10\.npz \(.+\): evaluate again"):
    evaluation_reports.observed(str(tmp_path), "", 10)
