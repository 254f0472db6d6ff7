"""Saves of a training: their order, on one machine and on several."""

import contextlib
import types

import pytest
import tensorflow as tf

from trainer import errors
from trainer.checkpoints import saver


class Recorder:
  """The parts of a Saver; notes the calls of each."""

  def __init__(self, is_chief=True, is_multi_worker=False):
    self.calls = []
    self.device = types.SimpleNamespace(is_chief=is_chief, is_multi_worker=is_multi_worker)
    self.has_failed = False
    self.newest = None
    self.busy = self.failing = None

  def made(self):
    return saver.Saver(self, self, self, self, self, self.check_lock, self.stage)

  def check_lock(self):
    self.calls.append("check the lock")
    if self.busy:
      raise self.busy

  @contextlib.contextmanager
  def stage(self, name):
    yield

  def synchronize_and_read(self):
    self.calls.append("read")
    return {"global_step": tf.constant(20, tf.int64), "w": tf.constant(1.5)}

  def stored(self):
    return {"data": "position"}

  def path(self, step):
    return f"/run/model.ckpt-{step}"

  def save(self, step, values):
    self.calls.append(("save", step, sorted(values)))

  def wait(self, *args):
    self.calls.append("wait")
    if self.failing:
      raise self.failing

  def broadcast_from_chief(self, step):
    self.calls.append(("broadcast", step))

  def total(self, value):
    return value + (not self.device.is_chief)  # another worker has failed

  def mark_valid(self, path):
    self.calls.append(("valid", path))

  def mark_saved(self, path, names):
    self.calls.append(("saved", path, sorted(names)))

  def latest_valid(self):
    return self.newest


SAVED = ("saved", "/run/model.ckpt-20", ["global_step", "w"])
WRITTEN = ("save", 20, ["data", "global_step", "w"])


def test_the_lock_is_checked_before_the_write():
  parts = Recorder()
  assert parts.made().save() == "/run/model.ckpt-20"
  assert parts.calls == ["read", "check the lock", WRITTEN, SAVED]


def test_a_folder_of_another_training_gets_no_checkpoint():
  parts = Recorder()
  parts.busy = errors.ModelDirBusyError("another")
  with pytest.raises(errors.ModelDirBusyError):
    parts.made().save()
  assert parts.calls == ["read", "check the lock"]


@pytest.mark.parametrize(("is_chief", "writes"), [(True, ["check the lock", WRITTEN]), (False, [])])
def test_workers_wait_for_the_file_of_the_chief(is_chief, writes):
  parts = Recorder(is_chief, is_multi_worker=True)
  parts.made().save()
  ends = ["wait", ("broadcast", 20), ("valid", "/run/model.ckpt-20"), SAVED]
  assert parts.calls == ["read", *writes, *ends]


def test_a_failure_on_any_worker_is_one_on_all():
  parts = Recorder()
  assert not parts.made().has_failed
  parts.has_failed = True
  assert parts.made().has_failed
  assert Recorder(is_chief=False).made().has_failed


@pytest.mark.parametrize("kind", [errors.OutputError, errors.StorageError])
def test_the_error_of_a_save_does_not_hide_that_of_the_training(kind, caplog):
  parts = Recorder()
  parts.failing = kind("disk 100 % full")
  parts.made().wait_and_warn()
  assert [each.getMessage() for each in caplog.records] == ["disk 100 % full"]
  with pytest.raises(kind):
    parts.made().wait()


@pytest.mark.parametrize(
  ("path", "step"), [(None, None), ("/run/model.ckpt-0", 0), ("/a/model.ckpt-7/model.ckpt-20", 20)]
)
def test_the_latest_step_is_that_of_the_file(path, step):
  parts = Recorder()
  parts.newest = path
  assert parts.made().latest_step() == step
