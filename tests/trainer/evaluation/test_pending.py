"""Notes of evaluations that are owed: read as written, whatever their names, and removed once."""

import os

import pytest

from trainer import errors
from trainer.checkpoints import retention
from trainer.evaluation import pending


def paths(folder, *steps):
  return [str(folder / f"model.ckpt-{step}") for step in steps]


def test_what_is_noted_is_owed_until_it_is_settled(tmp_path):
  first, second = paths(tmp_path, 9, 10)
  pending.note(second, "test")
  pending.note(second, "")
  pending.note(first, "test")
  pending.note(first, "test")
  assert pending.read(str(tmp_path)) == [(9, "test"), (10, ""), (10, "test")]
  pending.settle(second, "test")
  pending.settle(second, "test")
  assert pending.read(str(tmp_path)) == [(9, "test"), (10, "")]


@pytest.mark.parametrize(
  "name", ["", "a/b", "100% größer", "..", "a.owed-b", "a.lease-b", "model.ckpt-1"]
)
def test_any_name(name, tmp_path):
  (path,) = paths(tmp_path, 3)
  pending.note(path, name)
  assert pending.read(str(tmp_path)) == [(3, name)]
  held = retention.held(os.listdir(tmp_path))
  assert held == {os.path.basename(path)}
  pending.settle(path, name)
  assert list(tmp_path.iterdir()) == []


def test_other_files_are_no_notes(tmp_path):
  for name in (
    "model.ckpt-3.index",
    "model.ckpt-3.lease-1",
    "my.ckpt-3.owed-",
    "model.ckpt-x.owed-",
  ):
    (tmp_path / name).touch()
  assert pending.read(str(tmp_path)) == []
  assert pending.read(str(tmp_path / "nowhere")) == []


def test_what_cannot_be_noted_is_said(tmp_path):
  with pytest.raises(errors.OutputError, match=r"model\.ckpt-3\.owed-a .* cannot be written"):
    pending.note(str(tmp_path / "nowhere" / "model.ckpt-3"), "a")
