"""Pending evaluations: read as they were added, whatever their names, and removed once."""

import os

import pytest

from trainer import errors
from trainer.checkpoints import retention
from trainer.evaluation import pending


def test_what_is_added_is_pending_until_it_is_removed(tmp_path):
  evaluations = pending.PendingEvaluations(str(tmp_path))
  evaluations.add(10, "test")
  evaluations.add(10, "")
  evaluations.add(9, "test")
  evaluations.add(9, "test")
  assert evaluations.read() == [(9, "test"), (10, ""), (10, "test")]
  evaluations.remove(10, "test")
  evaluations.remove(10, "test")
  assert evaluations.read() == [(9, "test"), (10, "")]


def test_one_of_several_workers_writes(tmp_path):
  chief = pending.PendingEvaluations(str(tmp_path))
  other = pending.PendingEvaluations(str(tmp_path), writes=False)
  other.add(9, "")
  assert chief.read() == []
  chief.add(9, "")
  other.remove(9, "")
  assert chief.read() == [(9, "")]


@pytest.mark.parametrize(
  "name", ["", "a/b", "100% größer", "..", "a.owed-b", "a.lease-b", "model.ckpt-1"]
)
def test_any_name(name, tmp_path):
  evaluations = pending.PendingEvaluations(str(tmp_path))
  evaluations.add(3, name)
  assert evaluations.read() == [(3, name)]
  held = retention.held(os.listdir(tmp_path))
  assert held == {"model.ckpt-3"}
  evaluations.remove(3, name)
  assert list(tmp_path.iterdir()) == []


def test_other_files_are_no_pending_evaluations(tmp_path):
  for name in (
    "model.ckpt-3.index",
    "model.ckpt-3.lease-1",
    "my.ckpt-3.owed-",
    "model.ckpt-x.owed-",
  ):
    (tmp_path / name).touch()
  assert pending.PendingEvaluations(str(tmp_path)).read() == []
  assert pending.PendingEvaluations(str(tmp_path / "nowhere")).read() == []


def test_what_cannot_be_added_is_said(tmp_path):
  with pytest.raises(errors.OutputError, match=r"Cannot write .*model\.ckpt-3\.owed-a "):
    pending.PendingEvaluations(str(tmp_path / "nowhere")).add(3, "a")
