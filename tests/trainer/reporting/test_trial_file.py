"""trial.json: a run that is a trial knows its sweep."""

import dataclasses

import pytest

from trainer import errors
from trainer.reporting import trial_file

TRIAL = trial_file.Trial(
  sweep="digits",
  id="4f0c",
  folder="out/sweep",
  number=3,
  seed=None,
  bindings={"LR": "0.1"},
  metrics=["accuracy"],
  modes=["max"],
)


def test_a_trial_is_read_as_it_was_written(tmp_path):
  assert trial_file.read(str(tmp_path)) is None
  TRIAL.write(str(tmp_path))
  assert trial_file.read(str(tmp_path)) == TRIAL


def test_the_title_has_the_seed_of_a_trial_with_several():
  titles = [dataclasses.replace(TRIAL, seed=seed).title for seed in (None, 0)]
  assert titles == ["trial 3", "trial 3, seed 0"]


def test_a_file_without_a_key_is_damaged(tmp_path):
  (tmp_path / trial_file.NAME).write_text('{"sweep": "digits"}')
  with pytest.raises(errors.FileDamagedError, match="trial.json"):
    trial_file.read(str(tmp_path))
