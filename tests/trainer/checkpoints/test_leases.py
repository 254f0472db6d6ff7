"""Leases on checkpoints, and reading under them."""

import os
import time

import pytest
import tensorflow as tf

from tests.trainer.io import test_files
from trainer import errors
from trainer.checkpoints import directory as checkpoint
from trainer.checkpoints import leases, reader, retention
from trainer.io import files, storage


@pytest.fixture
def directory(tmp_path):
  """A training keeps one checkpoint here. Its first one has step 1."""
  made = checkpoint.CheckpointDirectory(str(tmp_path), retention.Retention(newest=1))
  save(made, 1)
  return made


def save(directory, step):
  directory.save(step, {"w": tf.constant(float(step))})
  directory.wait()


def value(path):
  return float(reader.read(path, ["w"])["w"])


def leased(folder):
  return [path.name for path in folder.iterdir() if ".lease-" in path.name]


def test_each_reader_has_a_lease_of_its_own(directory, tmp_path):
  with leases.hold(directory.path(1)):
    with leases.hold(directory.path(1)):
      assert len(leased(tmp_path)) == 2
    assert len(leased(tmp_path)) == 1
    save(directory, 2)
    assert directory.steps() == [1, 2]
  assert leased(tmp_path) == []


def test_what_no_training_removes_is_read_without_a_lease(tmp_path):
  for path in ("bert_model.ckpt", "variables/variables", "model.ckpt-5.h5", "model.ckpt"):
    with leases.hold(str(tmp_path / path)):
      assert list(tmp_path.iterdir()) == []


def refuse_leases(monkeypatch, error):
  write = storage.write

  def refuse(path, content):
    if ".lease-" in path:
      raise error
    write(path, content)

  monkeypatch.setattr(storage, "write", refuse)


@pytest.mark.parametrize(
  ("error", "said"),
  [
    (tf.errors.PermissionDeniedError(None, None, "x; Read-only file system"), False),
    (tf.errors.ResourceExhaustedError(None, None, "x; No space left on device"), True),
  ],
)
def test_a_folder_that_cannot_be_written_is_read_all_the_same(
  error, said, directory, monkeypatch, caplog
):
  refuse_leases(monkeypatch, error)
  with leases.hold(directory.path(1)):
    assert value(directory.path(1)) == 1.0
  assert ("may remove the checkpoint before the reader finishes" in caplog.text) == said


@pytest.mark.parametrize("is_chosen", [False, True])
def test_another_checkpoint_is_read_where_the_chosen_one_is_gone(is_chosen, directory, tmp_path):
  """The training removes it after the choice, or while it is read."""
  steps = iter(range(2, 5))
  later = checkpoint.CheckpointDirectory(str(tmp_path))

  def choose():
    chosen = later.latest_valid()
    if is_chosen:
      save_next()
    return chosen

  def load(path):
    if not is_chosen:
      save_next()
    return value(path)

  def save_next():
    step = next(steps, None)
    if step is not None:
      save(directory, step)

  assert leases.read(choose, load) == 4.0
  assert leased(tmp_path) == []


def test_a_reader_that_never_comes_in_time_says_so(directory, monkeypatch):
  monkeypatch.setattr(leases, "_TRIES", 3)
  steps = iter(range(2, 10))

  def load(path):
    save(directory, next(steps))
    return value(path)

  with pytest.raises(
    errors.CheckpointNotFoundError,
    match=r"model.ckpt-3 is gone.* 2 checkpoints before it.*keep_checkpoint_max",
  ):
    leases.read(directory.latest_valid, load)


def test_a_damaged_checkpoint_is_not_read_again_and_again(directory):
  tried = []

  def load(path):
    tried.append(path)
    raise errors.CheckpointDamagedError("damaged")

  with pytest.raises(errors.CheckpointDamagedError):
    leases.read(directory.latest_valid, load)
  assert len(tried) == 1


def test_a_lease_is_renewed_in_time(directory, tmp_path):
  with leases.hold(directory.path(1)):
    (name,) = leased(tmp_path)
    (tmp_path / name).unlink()
    leases.renew()
    assert leased(tmp_path) == []  # it is too new
    leases.renew(lambda: leases.time.monotonic() + leases.LEASE_SECONDS / 2)
    assert leased(tmp_path) == [name]
  leases.renew(lambda: leases.time.monotonic() + leases.LEASE_SECONDS)
  assert leased(tmp_path) == []


def test_void_leases_are_removed_and_others_stay(tmp_path):
  """That of a killed process too, which may not have written a word into it."""
  dead = f"model.ckpt-1.lease-0-{test_files.name_of_a_dead_process()}"
  names = [dead, "model.ckpt-2.lease-0-elsewhere-1-1", f"model.ckpt-3.lease-0-{files.writer()}"]
  for name in names:
    (tmp_path / name).touch()
  now = time.time()
  assert leases.expire(str(tmp_path), names, now) == {"model.ckpt-2", "model.ckpt-3"}
  assert set(leased(tmp_path)) == set(names[1:])


def test_a_lease_is_void_once_the_newest_checkpoint_is_newer(tmp_path):
  name = "model.ckpt-2.lease-0-elsewhere-1-1"
  (tmp_path / name).touch()
  os.utime(tmp_path / name, (1000, 1000))
  end = 1000 + leases.LEASE_SECONDS
  assert leases.expire(str(tmp_path), [name], end - 1) == {"model.ckpt-2"}
  assert leases.expire(str(tmp_path), [name], end) == set()
  assert leased(tmp_path) == []
