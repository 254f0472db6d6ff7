"""Which checkpoints are kept."""

import math
import os

import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import directory as checkpoint
from trainer.checkpoints import leases, retention

HOUR = 3600.0


def kept(steps, metrics=None, **settings):
  written = {step: step * HOUR for step in steps}
  removed = retention.Retention(**settings).to_remove(written, metrics or {})
  return [step for step in steps if step not in removed]


@pytest.mark.parametrize(
  ("settings", "expected"),
  [
    ({"newest": 2}, [8, 9]),
    ({"newest": 0}, list(range(10))),
    ({"newest": 1, "every_n_steps": 4}, [0, 4, 8, 9]),
    ({"newest": 1, "every_n_hours": 3}, [0, 3, 6, 9]),
    ({"newest": 1, "best": 2}, [2, 3, 9]),
    ({"newest": 1, "best": 2, "mode": "max"}, [5, 7, 9]),
  ],
)
def test_the_newest_and_those_that_have_a_reason(settings, expected):
  metrics = {2: 0.1, 3: 0.2, 5: 0.9, 7: 0.8, 8: 0.5}
  assert kept(list(range(10)), metrics, **settings) == expected


@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_best_is_a_number_whatever_the_order_of_nan(mode):
  sign = 1 if mode == "min" else -1
  settings = {"newest": 1, "best": 2, "mode": mode}
  for nan_at in ((1, 4, 7), (2, 3, 8), (1, 2, 3)):
    metrics = {step: sign * abs(step - 6) for step in range(10)} | dict.fromkeys(nan_at, math.nan)
    best = sorted(sorted(set(range(10)) - set(nan_at), key=lambda step: abs(step - 6))[:2])
    assert kept(list(range(10)), metrics, **settings) == [*best, 9]
  assert kept([1, 2, 3], dict.fromkeys([1, 2, 3], math.nan), **settings) == [3]


def test_hours_go_on_after_the_clock_was_set_back():
  """One checkpoint in three hours is kept; the clock goes back by 700 hours after step 4."""
  hours = {step: step if step < 5 else step - 700 for step in range(10)}
  written = {step: hour * HOUR for step, hour in hours.items()}
  removed = retention.Retention(newest=1, every_n_hours=3).to_remove(written, {})
  assert sorted(written.keys() - set(removed)) == [0, 3, 5, 8, 9]


@pytest.mark.parametrize(
  "settings", [{"mode": "most"}, {"newest": -1}, {"best": "two"}, {"newest": 2.5}]
)
def test_settings_that_cannot_work(settings):
  with pytest.raises(errors.SettingError, match="Retention"):
    retention.Retention(**settings)


@pytest.fixture
def directory(tmp_path):
  return checkpoint.CheckpointDirectory(str(tmp_path), retention.Retention(newest=1))


def save(directory, *steps):
  for step in steps:
    directory.save(step, {"w": tf.constant(1.0)})
  directory.wait()
  return directory.steps()


def test_a_pinned_checkpoint_stays(directory, tmp_path):
  save(directory, 1)
  (tmp_path / "model.ckpt-1.pinned").touch()
  assert save(directory, 2, 3) == [1, 3]


def test_a_lease_holds_until_it_is_given_back(directory):
  save(directory, 1)
  with leases.hold(directory.path(1)):
    assert save(directory, 2, 3) == [1, 3]
  assert save(directory, 4) == [4]


def test_lease_of_a_killed_remote_process_expires(directory, tmp_path):
  save(directory, 1)
  lease = tmp_path / "model.ckpt-1.lease-0-elsewhere-1-1"
  lease.touch()
  assert save(directory, 2) == [1, 2]
  written = lease.stat().st_mtime - leases.LEASE_SECONDS
  os.utime(lease, (written, written))
  assert save(directory, 3) == [3]
  assert not lease.exists()


def test_a_lease_that_goes_while_it_is_looked_at_holds_no_longer(directory, monkeypatch):
  save(directory, 1)
  stat = tf.io.gfile.stat

  def stat_later(path):
    if ".lease-" in path:  # its process has come to its end since the folder was listed
      os.remove(path)
    return stat(path)

  monkeypatch.setattr(tf.io.gfile, "stat", stat_later)
  with leases.hold(directory.path(1)):
    assert save(directory, 2) == [2]


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_checkpoint_with_a_pending_evaluation_stays(name, directory, tmp_path):
  save(directory, 1)
  pending = tmp_path / f"model.ckpt-1.owed-{name}"
  pending.touch()
  assert save(directory, 2, 3) == [1, 3]
  pending.unlink()
  assert save(directory, 4) == [4]


def test_the_best_of_a_training_are_kept(tmp_path):
  """The loss of the line falls, so that by a reversed order the first ones are the best."""
  estimator = programs.estimator(
    tmp_path,
    save_checkpoints_steps=2,
    retention=retention.Retention(newest=1, best=1, metric="loss", mode="max"),
  )

  class Evaluate:
    def begin(self): ...
    def before_save(self, session, step): ...
    def end(self, session, step): ...
    def after_save(self, session, step):
      if step:
        estimator.evaluate(programs.examples(8))

  estimator.train(programs.train_input, steps=8, saving_listeners=[Evaluate()])
  assert checkpoint.CheckpointDirectory(str(tmp_path)).steps() == [2, 8]


class Counted:
  """Counts the operations on files of a folder, by name.

  Attributes:
    listings: of the folder.
    looks: at a file.
  """

  def __init__(self, folder, monkeypatch):
    self.listings, self.looks = [], []
    for name, log in (("listdir", self.listings), ("stat", self.looks), ("exists", self.looks)):
      monkeypatch.setattr(tf.io.gfile, name, self._counted(name, log, folder))

  def _counted(self, name, log, folder):
    function = getattr(tf.io.gfile, name)

    def call(path):
      if name != "listdir" or path.rstrip("/") == folder:
        log.append(path)
      return function(path)

    return call

  def clear(self):
    self.listings.clear()
    self.looks.clear()


@pytest.mark.parametrize("newest", [3, 40])
@pytest.mark.parametrize("where", ["ram", "disk"])
def test_save_lists_the_folder_once_for_any_checkpoint_count(where, newest, tmp_path, monkeypatch):
  """All but 3 of 50 are removed at once, and one at a time beside 39 others."""
  folder = f"ram://many{newest}" if where == "ram" else str(tmp_path)
  save(checkpoint.CheckpointDirectory(folder, retention.Retention(newest=0)), *range(50))
  directory = checkpoint.CheckpointDirectory(folder, retention.Retention(newest=newest, best=1))
  directory.recover()
  for step in (50, 51, 52):
    counted = Counted(folder, monkeypatch)
    directory.save(step, {"w": tf.constant(1.0)})
    directory.wait()
    assert counted.listings == [folder]
    monkeypatch.undo()
  # Two looks at each of ten checkpoints, and what the writing takes.
  assert len(counted.looks) < 40
  assert directory.steps() == list(range(53 - newest, 53))
