"""Removal of checkpoints: the order of its writes, damaged ones, and failures."""

import contextlib
import types

import pytest

from trainer import errors
from trainer.checkpoints import commit, inspector, listing, removal, retention


@pytest.fixture
def made(tmp_path, monkeypatch):
  """Steps 1 to 4 in a folder that keeps two; `problems` has the damaged ones by step."""
  for step in range(1, 5):
    for ending in (".index", ".data-00000-of-00001"):
      (tmp_path / f"model.ckpt-{step}{ending}").touch()
  problems = {}

  class Inspected(inspector.Inspector):
    def problem(self, path, hold=contextlib.nullcontext, looks_again=True):
      found = problems.get(int(path.rpartition("-")[2]))
      if isinstance(found, Exception):
        raise found
      self._known[path] = (None, None), found
      return found

  made = removal.Removal(
    str(tmp_path),
    retention.Retention(newest=2),
    Inspected(),
    lambda: 0.0,
    lambda names: {},
    [1, 2, 3],
  )
  return types.SimpleNamespace(removal=made, problems=problems, folder=tmp_path)


def steps(folder):
  return sorted(int(path.stem.rpartition("-")[2]) for path in folder.glob("*.index"))


def named(folder):
  return sorted(listing.read_state(str(folder)).listed_steps())


def test_the_newest_stay_and_are_named(made):
  made.removal.remove_unneeded(4, None)
  assert (steps(made.folder), named(made.folder)) == ([3, 4], [3, 4])
  assert made.removal.left == [3, 4]
  assert len(list(made.folder.glob("*.data-*"))) == 2


def test_a_checkpoint_leaves_the_state_file_before_it_is_removed(made, monkeypatch):
  seen = []
  remove = lambda path, data_files: seen.append(named(made.folder))
  monkeypatch.setattr(commit, "remove", remove)
  made.removal.remove_unneeded(4, None)
  assert seen == [[3, 4], [3, 4]]


def test_a_damaged_checkpoint_does_not_count_as_kept(made, caplog):
  made.problems[3] = "damaged."
  made.removal.remove_unneeded(4, None)
  assert steps(made.folder) == [2, 3, 4]
  assert named(made.folder) == [2, 4]
  assert "This checkpoint does not count as kept." in caplog.text


def test_nothing_is_removed_while_a_checkpoint_is_out_of_reach(made, caplog):
  made.problems[3] = errors.CheckpointError("Cannot read it.")
  made.removal.remove_unneeded(4, None)
  assert steps(made.folder) == [1, 2, 3, 4]
  assert "Octet removes no checkpoint this time" in caplog.text


def test_a_held_checkpoint_stays(made):
  (made.folder / "model.ckpt-1.pinned").touch()
  made.removal.remove_unneeded(4, None)
  assert steps(made.folder) == [1, 3, 4]


def test_a_removal_that_fails_is_a_warning(made, monkeypatch, caplog):
  def remove(path, data_files):
    raise errors.StorageError("no")

  monkeypatch.setattr(commit, "remove", remove)
  made.removal.remove_unneeded(4, None)
  assert made.removal.left == [1, 2, 3, 4]
  assert "Cannot remove the old checkpoint" in caplog.text
