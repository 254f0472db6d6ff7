"""Locks on local files."""

import errno
import fcntl

import pytest

from trainer.io import file_locks


def test_an_open_file_excludes_another_until_it_closes(tmp_path):
  path = tmp_path / "a"
  with open(path, "ab") as first, open(path, "ab") as second:
    assert file_locks.lock(first)
    with pytest.raises(BlockingIOError):
      fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
    first.close()
    assert file_locks.lock(second)


def test_a_file_system_without_locks_is_told_from_a_failure(tmp_path, monkeypatch):
  def fail(number):
    def flock(file, how):
      raise OSError(number, "no")

    return flock

  with open(tmp_path / "a", "ab") as file:
    monkeypatch.setattr(fcntl, "flock", fail(errno.ENOLCK))
    assert not file_locks.lock(file)
    monkeypatch.setattr(fcntl, "flock", fail(errno.EIO))
    with pytest.raises(OSError, match="no"):
      file_locks.lock(file)
