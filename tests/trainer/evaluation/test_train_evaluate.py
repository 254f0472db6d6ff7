"""Each checkpoint is evaluated but that of step 0, not too often, and always the last one."""

import numpy as np
import pytest

from tests.trainer import programs
from tests.trainer.evaluation.eval_specs import evaluated
from trainer import EvalSpec, TrainSpec, errors, train_and_evaluate
from trainer.outputs import verification


class Clock:
  """Each look at it takes a second."""

  def __init__(self):
    self.now = 0.0

  def __call__(self):
    self.now += 1.0
    return self.now


def test_every_checkpoint_and_the_last_one(tmp_path):
  log, trainings = [], []
  estimator = programs.estimator(tmp_path, save_checkpoints_steps=10)
  train = estimator.train
  estimator.train = lambda *args, **kwargs: trainings.append(1) or train(*args, **kwargs)
  results = train_and_evaluate(
    estimator, TrainSpec(programs.train_input, max_steps=22), evaluated(log)
  )
  assert (log, trainings) == ([(None, 10), (None, 20), (None, 22)], [1])
  assert results == {None: estimator.evaluate(programs.examples(11))}
  assert results[None]["global_step"] == 22


class Exporter:
  name = "noted"

  def __init__(self, log):
    self.log = log

  def export(self, estimator, path, checkpoint_path, result, is_final):
    self.log.append("exporter")


def test_export_checking_process_starts_before_training(tmp_path, monkeypatch):
  log = []
  hooks = [lambda *_: log.append("training")]
  monkeypatch.setattr(verification, "prepare", lambda: log.append("prepared"))

  def train(name, **settings):
    log.clear()
    estimator = programs.estimator(tmp_path / name)
    spec = EvalSpec(programs.examples(11), **settings)
    train_and_evaluate(estimator, TrainSpec(programs.train_input, max_steps=2, hooks=hooks), spec)
    return log

  assert train("exports", exporters=[Exporter(log)])[:2] == ["prepared", "training"]
  assert "prepared" not in train("does_not")


def test_evaluations_change_nothing_of_the_training(tmp_path):
  together = programs.estimator(tmp_path / "together", save_checkpoints_steps=3)
  train_and_evaluate(together, TrainSpec(programs.train_input, max_steps=8), evaluated([]))
  alone = programs.estimator(tmp_path / "alone", save_checkpoints_steps=3).train(
    programs.train_input, max_steps=8
  )
  np.testing.assert_array_equal(together.get_variable_value("w"), alone.get_variable_value("w"))


def test_several_evaluations_of_different_names(tmp_path):
  log = []
  results = train_and_evaluate(
    programs.estimator(tmp_path, save_checkpoints_steps=5),
    TrainSpec(programs.train_input, max_steps=10),
    evaluated(log, "a"),
    evaluated(log, "b", steps=1),
  )
  assert log == [("a", 5), ("b", 5), ("a", 10), ("b", 10)]  # the last one once
  assert set(results) == {"a", "b"}
  assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"eval_a", "eval_b"}


def test_throttle_secs_limits_evaluations_but_not_the_last(tmp_path):
  log = []
  train_and_evaluate(
    programs.estimator(tmp_path, save_checkpoints_steps=2),
    TrainSpec(programs.train_input, max_steps=12),
    evaluated(log, throttle_secs=4),
    clock=Clock(),
  )
  steps = [step for _, step in log]
  # Each save looks at the clock once, each evaluation once more.
  assert steps == [2, 10, 12]


def test_a_training_that_is_complete_is_evaluated_once_more(tmp_path):
  def run(max_steps, log):
    spec = TrainSpec(programs.train_input, max_steps=max_steps)
    return train_and_evaluate(programs.estimator(tmp_path), spec, evaluated(log))

  first = run(10, [])
  for again in (10, 7):
    log = []
    assert run(again, log) == first
    assert log == [(None, 10)]


def test_a_resumed_training_evaluates_what_comes(tmp_path):
  programs.estimator(tmp_path).train(programs.train_input, max_steps=7)
  log = []
  train_and_evaluate(
    programs.estimator(tmp_path, save_checkpoints_steps=5),
    TrainSpec(programs.train_input, max_steps=12),
    evaluated(log),
  )
  assert log == [(None, 10), (None, 12)]


def test_hooks_and_listeners_of_the_training_are_called(tmp_path):
  seen = []

  class Listener:
    def begin(self):
      seen.append("begin")

    def before_save(self, session, step):
      pass

    def after_save(self, session, step):
      seen.append(step)

    def end(self, session, step):
      seen.append("end")

  hooks = [lambda step, metrics, _: seen.append("hook")]
  train_spec = TrainSpec(
    programs.train_input, max_steps=5, hooks=hooks, saving_listeners=[Listener()]
  )
  train_and_evaluate(
    programs.estimator(tmp_path, **programs.fixed_loops(5)), train_spec, evaluated([])
  )
  assert seen == ["begin", 0, "hook", 5, "end"]


def test_without_an_evaluation_it_is_a_training(tmp_path):
  estimator = programs.estimator(tmp_path)
  assert train_and_evaluate(estimator, TrainSpec(programs.train_input, max_steps=2)) == {}
  assert estimator.latest_step() == 2


@pytest.mark.parametrize(
  "make, message",
  [
    (
      lambda: TrainSpec(programs.train_input, max_steps=0),
      "TrainSpec.max_steps is 0; expected an int greater than 0",
    ),
    (
      lambda: EvalSpec(programs.examples(1), steps=1.5),
      "EvalSpec.steps is 1.5; expected an int greater than 0",
    ),
    (
      lambda: EvalSpec(programs.examples(1), throttle_secs=-1),
      "EvalSpec.throttle_secs is -1; expected a number of at least 0",
    ),
  ],
)
def test_values_that_cannot_work(make, message):
  with pytest.raises(errors.SettingError, match=message):
    make()


def test_two_evaluations_of_one_name(tmp_path):
  specs = [EvalSpec(programs.examples(1), name="a")] * 2
  with pytest.raises(errors.SettingError, match="2 EvalSpecs have the name 'a'"):
    train_and_evaluate(
      programs.estimator(tmp_path / "model"), TrainSpec(programs.train_input, max_steps=1), *specs
    )
  assert not (tmp_path / "model").exists()
