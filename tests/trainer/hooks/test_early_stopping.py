"""The training ends when its evaluations get no better; a restart does not reset patience."""

import math

import pytest

from tests.trainer import programs
from trainer import EvalSpec, TrainSpec, errors, train_and_evaluate
from trainer.hooks.early_stopping import EarlyStopping
from trainer.reporting import evaluations_file


def decisions(model_dir, values, evaluation="", **settings):
  """For evaluations of these values at steps 10, 20, ...: whether each ends the training, each
  asked of a new object, as after a restart.
  """
  said = []
  for index, value in enumerate(values):
    step = 10 * (index + 1)
    evaluations_file.add(str(model_dir), evaluation, step, {"m": value})
    said.append(EarlyStopping("m", evaluation=evaluation, **settings)._decide(str(model_dir), step))
  return said


def test_patience_in_evaluations(tmp_path):
  assert decisions(tmp_path, [3, 2, 2.5, 1, 1.5, 1.2, 0.5], mode="min", patience=2) == [
    False,
    False,
    False,
    False,
    False,
    True,
    False,
  ]


def test_each_decision_is_logged_with_its_reason(tmp_path, caplog):
  with caplog.at_level("INFO", logger="absl"):
    decisions(tmp_path, [3, 3.5, 4], mode="min", patience=2)
  assert [record.message.split("; ")[1] for record in caplog.records] == [
    "best 3 at step 10, 0 of 2 evaluations without a better one: it continues.",
    "best 3 at step 10, 1 of 2 evaluations without a better one: it continues.",
    "best 3 at step 10, 2 of 2 evaluations without a better one: the training ends.",
  ]


def test_patience_in_steps(tmp_path):
  assert decisions(tmp_path, [3, 4, 5, 6], mode="min", patience_steps=30) == [
    False,
    False,
    False,
    True,
  ]


def test_the_greater_is_better_and_by_how_much(tmp_path):
  assert decisions(tmp_path, [0.5, 0.505, 0.52, 0.52], mode="max", patience=1, min_delta=0.01) == [
    False,
    True,
    False,
    True,
  ]


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_number_is_better_than_none(tmp_path, mode):
  sign = 1 if mode == "max" else -1
  values = [math.nan, math.nan, sign * 1, math.nan, sign * 2, sign * 1, math.nan]
  found = decisions(tmp_path, values, mode=mode, patience=2)
  assert found == [False, False, False, False, False, False, True]


def test_only_nan_ends_a_training(tmp_path):
  assert decisions(tmp_path, [math.nan] * 3, mode="min", patience=2) == [False, False, True]


def test_later_evaluations_are_of_a_training_that_was_cut_off(tmp_path):
  decisions(tmp_path, [1, 2, 3], patience=2)
  assert not EarlyStopping("m", patience=2)._decide(str(tmp_path), 20)
  assert EarlyStopping("m", patience=2)._decide(str(tmp_path), 30)


def test_only_the_evaluation_that_was_named_tells(tmp_path):
  hook = EarlyStopping("m", patience=1, evaluation="small")
  decisions(tmp_path, [1, 2], patience=1)
  assert not hook._decide(str(tmp_path), 20)
  assert not hook.evaluated(20, "", {"m": 2}, None)


def test_another_process_may_evaluate(tmp_path):
  now = [0.0]
  hook = EarlyStopping("m", patience=1, clock=lambda: now[0])
  estimator = programs.estimator(tmp_path)
  decisions(tmp_path, [1, 2], patience=1)
  assert not hook(25, {}, estimator)  # it has just looked
  now[0] += 60
  assert hook(30, {}, estimator)


@pytest.mark.parametrize(
  "settings, message",
  [
    ({}, "set either patience .evaluations. or patience_steps"),
    ({"patience": 1, "patience_steps": 1}, "set either patience .evaluations. or patience_steps"),
    ({"patience": 0}, "EarlyStopping.patience is .*; expected an int greater than 0"),
    ({"patience": 1, "mode": "lowest"}, "EarlyStopping.mode is 'lowest'"),
    ({"patience": 1, "min_delta": -1}, "EarlyStopping.min_delta is -1; expected a number of at"),
  ],
)
def test_values_that_cannot_work(settings, message):
  with pytest.raises(errors.SettingError, match=message):
    EarlyStopping(**settings)


def test_a_metric_that_no_evaluation_gives_is_said_at_the_first(tmp_path):
  with pytest.raises(
    errors.SettingError,
    match="EarlyStopping.metric is 'auc'; the evaluation gives absolute_error, loss",
  ):
    run(tmp_path, EarlyStopping("auc", patience=1))


def run(model_dir, hook, max_steps=100, train=programs.train_input):
  estimator = programs.estimator(model_dir, save_checkpoints_steps=10)
  train_and_evaluate(
    estimator, TrainSpec(train, max_steps=max_steps, hooks=[hook]), EvalSpec(programs.examples(11))
  )
  return estimator.latest_step()


def test_training_stops_after_an_evaluation_and_stays_stopped(tmp_path):
  # The loss falls by less than 1,000 between evaluations: none counts as better than the first.
  assert run(tmp_path, EarlyStopping(patience=3, min_delta=1000.0)) == 40
  assert run(tmp_path, EarlyStopping(patience=3, min_delta=1000.0)) == 40  # the same command again
  # Goes on with what it has seen.
  assert run(tmp_path, EarlyStopping(patience=5, min_delta=1000.0)) == 60


def test_a_restart_in_between_ends_at_the_same_step(tmp_path):
  assert run(tmp_path, EarlyStopping(patience=3, min_delta=1000.0), max_steps=25) == 25
  assert run(tmp_path, EarlyStopping(patience=3, min_delta=1000.0)) == 30
