"""Durations in each unit, and what is said where the measure is missing or there is no such
duration.
"""

import pytest

from trainer import errors
from trainer.settings import durations

LENGTH = durations.TrainingLength(batch_size=100, epoch_examples=1050, train_steps=400)


@pytest.mark.parametrize(
  "duration, steps",
  [
    (0, 0),
    (245, 245),
    (2.5, 2.5),
    ("245 steps", 245),
    ("1 step", 1),
    ("1_000 steps", 1000),
    ("1e3 steps", 1000),
    ("2 epochs", 21),
    ("0.5 epoch", 5.25),
    ("2500 examples", 25),
    ("1 example", 0.01),
    ("10 %", 40),
    ("2.5%", 10),
    ("100 percent", 400),
    (" 5 steps ", 5),
  ],
)
def test_steps(duration, steps):
  assert LENGTH.steps(duration, "a.b") == pytest.approx(steps, rel=1e-12)


@pytest.mark.parametrize(
  "duration",
  [
    -1,
    "-1 epochs",
    "5",
    "5 hours",
    "epochs",
    "",
    None,
    True,
    float("nan"),
    float("inf"),
    "1e999 epochs",
    [5],
    "5 epochs 3",
  ],
)
def test_what_is_no_duration(duration):
  with pytest.raises(
    errors.SettingError,
    match=r"schedules.cosine.warmup is .*: expected a "
    r"duration of at least 0, such as 245, '245 "
    r"steps'",
  ):
    LENGTH.steps(duration, "schedules.cosine.warmup")


@pytest.mark.parametrize(
  "duration, known, message",
  [
    (
      "10 %",
      {},
      r"a.b is '10 %', and Octet does not know the length of the training: set run.train_steps "
      r"\(without gin: RunConfig\(train_steps=...\)\)",
    ),
    (
      "5 epochs",
      dict(batch_size=8),
      "not know the examples of an epoch: set RunConfig.epoch_examples",
    ),
    ("5 epochs", dict(epoch_examples=8), "not know the global batch: set run.train_batch_size"),
    ("5 examples", {}, "not know the global batch"),
    (
      "5 %",
      dict(batch_size=8, train_steps="2 epochs"),
      "run.train_steps is '2 epochs', and Octet does not know the examples of an epoch",
    ),
  ],
)
def test_the_setting_that_is_missing(duration, known, message):
  with pytest.raises(errors.SettingError, match=message):
    durations.TrainingLength(**known).steps(duration, "a.b")


@pytest.mark.parametrize(
  "train_steps, total",
  [
    (None, None),
    (2441, 2441),
    ("2441 steps", 2441),
    ("50 epochs", 2441),
    ("2500000 examples", 2441),
    ("5 epochs", 244),
    ("2560 examples", 3),
  ],
)
def test_the_whole_training_is_the_nearest_number_of_steps(train_steps, total):
  found = durations.TrainingLength(1024, 50_000, train_steps).total()
  assert found == total
  assert isinstance(found, int | None)


@pytest.mark.parametrize("train_steps", [0, -5, 2.5, True, "0 epochs", "50 %", [3]])
def test_what_is_no_length_of_a_training(train_steps):
  with pytest.raises(
    errors.SettingError,
    match="run.train_steps is .*; expected an int .*, or a duration such as '50 epochs'",
  ):
    durations.TrainingLength(train_steps=train_steps)


@pytest.mark.parametrize("examples", [0, -1, 2.0, "50000", True])
def test_what_is_no_epoch(examples):
  with pytest.raises(
    errors.SettingError, match="RunConfig.epoch_examples is .*; expected an int greater than 0"
  ):
    durations.TrainingLength(epoch_examples=examples)


def test_less_than_a_step():
  with pytest.raises(
    errors.SettingError, match="run.train_steps is '10 examples': less than a step of 1024 examples"
  ):
    durations.TrainingLength(1024, None, "10 examples").total()
