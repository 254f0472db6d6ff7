"""Which checkpoints are kept."""

import os

import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import checkpoint, errors, retention

HOUR = 3600.0


def kept(steps, metrics=None, **settings):
  written = {step: step * HOUR for step in steps}
  removed = retention.Retention(**settings).to_remove(written, metrics or {})
  return [step for step in steps if step not in removed]


@pytest.mark.parametrize(("settings", "expected"), [
    ({"newest": 2}, [8, 9]),
    ({"newest": 0}, list(range(10))),
    ({"newest": 1, "every_n_steps": 4}, [0, 4, 8, 9]),
    ({"newest": 1, "every_n_hours": 3}, [0, 3, 6, 9]),
    ({"newest": 1, "best": 2}, [2, 3, 9]),
    ({"newest": 1, "best": 2, "mode": "max"}, [5, 7, 9]),
])
def test_the_newest_and_those_that_have_a_reason(settings, expected):
  metrics = {2: 0.1, 3: 0.2, 5: 0.9, 7: 0.8, 8: 0.5}
  assert kept(list(range(10)), metrics, **settings) == expected


@pytest.mark.parametrize("settings", [{"mode": "most"}, {"newest": -1}, {"best": "two"}, {"newest": 2.5}])
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
  with retention.lease(directory.path(1)):
    assert save(directory, 2, 3) == [1, 3]
  assert save(directory, 4) == [4]


def test_the_lease_of_a_process_that_was_killed_runs_out(directory):
  save(directory, 1)
  with retention.lease(directory.path(1)):
    old = os.stat(directory.path(1) + f".lease-{os.getpid()}").st_mtime - retention.LEASE_SECONDS - 1
    os.utime(directory.path(1) + f".lease-{os.getpid()}", (old, old))
    assert save(directory, 2) == [2]


def test_the_best_of_a_training_are_kept(tmp_path):
  """The loss of the line falls, so that by a reversed order the first ones are the best."""
  estimator = programs.estimator(
      tmp_path, save_checkpoints_steps=2, retention=retention.Retention(newest=1, best=1, metric="loss", mode="max"))

  class Evaluate:
    def begin(self): ...
    def before_save(self, session, step): ...
    def end(self, session, step): ...
    def after_save(self, session, step):
      if step:
        estimator.evaluate(programs.examples(8))

  estimator.train(programs.train_input, steps=8, saving_listeners=[Evaluate()])
  assert checkpoint.CheckpointDirectory(str(tmp_path)).steps() == [2, 8]
