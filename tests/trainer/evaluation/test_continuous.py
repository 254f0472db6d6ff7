"""Beside a training in another process: each checkpoint is evaluated once, held while it is
read, and the evaluations end by themselves.
"""

import os
import time

import pytest

from tests.trainer import programs
from tests.trainer.evaluation.eval_specs import evaluated
from trainer import EvalSpec, TrainSpec, errors, evaluate_continuously, train_and_evaluate
from trainer.checkpoints import leases


class Training:
  """The other process: whenever the evaluator sleeps, it does what is next."""

  def __init__(self, *actions):
    self._actions = list(actions)
    self.now = 0.0

  def sleep(self, seconds):
    self.now += seconds
    if self._actions:
      self._actions.pop(0)()

  def evaluate(self, model_dir, *specs, **settings):
    evaluator = programs.estimator(model_dir)
    return evaluate_continuously(
      evaluator, *specs, clock=lambda: self.now, sleep=self.sleep, **settings
    )


def train_to(model_dir, step, **config):
  return lambda: programs.estimator(model_dir, **{"save_checkpoints_steps": 5, **config}).train(
    programs.train_input, max_steps=step
  )


def test_each_checkpoint_once_in_order_to_the_last_step(tmp_path):
  log = []
  training = Training(train_to(tmp_path, 5), train_to(tmp_path, 20), train_to(tmp_path, 22))
  results = training.evaluate(tmp_path, evaluated(log), evaluated(log, "b", steps=1), max_steps=22)
  assert log == [(name, step) for step in (5, 10, 15, 20, 22) for name in (None, "b")]
  assert results[None]["global_step"] == 22
  own = programs.estimator(tmp_path).evaluate(programs.examples(11))
  assert results[None] == own


def test_it_says_what_it_waits_for_until_nothing_comes(tmp_path, caplog):
  log = []
  training = Training(train_to(tmp_path, 5))
  with caplog.at_level("INFO", logger="absl"):
    training.evaluate(tmp_path, evaluated(log), max_steps=100, timeout_secs=130.0, poll_secs=10.0)
  assert log == [(None, 5)]
  assert training.now == 140.0  # the first look comes too early
  said = [line for line in caplog.messages if line.startswith("Waiting for a checkpoint")]
  assert said == [
    f"Waiting for a checkpoint{after} in {tmp_path}: {left} s more at the longest "
    "(run.eval_timeout_secs)."
    for after, left in (
      ("", 130),
      (" after step 5", 130),
      (" after step 5", 70),
      (" after step 5", 10),
    )
  ]


def test_nothing_ever_comes(tmp_path):
  assert Training().evaluate(tmp_path / "nowhere", evaluated([]), timeout_secs=3.0) == {}


def test_an_evaluator_that_is_started_again_does_the_rest(tmp_path):
  log = []
  train_to(tmp_path, 10)()
  Training().evaluate(tmp_path, evaluated(log), max_steps=10)
  Training(train_to(tmp_path, 20)).evaluate(tmp_path, evaluated(log), max_steps=20)
  assert log == [(None, 5), (None, 10), (None, 15), (None, 20)]


def test_a_checkpoint_that_is_damaged_or_gone_is_passed_over(tmp_path, caplog):
  log = []
  train_to(tmp_path, 15)()
  data = tmp_path / "model.ckpt-10.data-00000-of-00001"
  data.write_bytes(data.read_bytes()[:4])
  Training().evaluate(tmp_path, evaluated(log), max_steps=15)
  assert log == [(None, 5), (None, 15)]
  assert "Not evaluated" in caplog.text
  assert "model.ckpt-10" in caplog.text


def test_what_is_read_is_held_until_it_is_exported(tmp_path):
  held = []

  class Looks:
    name = "looks"

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
      held.append(leases.expire(str(tmp_path), os.listdir(tmp_path), time.time()))

  train_to(tmp_path, 5)()
  Training().evaluate(tmp_path, EvalSpec(programs.examples(11), exporters=[Looks()]), max_steps=5)
  assert held == [{"model.ckpt-5"}, set()]  # that the training has ended is told later


def test_there_must_be_something_to_evaluate(tmp_path):
  with pytest.raises(errors.SettingError, match="give an EvalSpec"):
    Training().evaluate(tmp_path)


@pytest.mark.parametrize(
  "cluster",
  [
    {"chief": ["a:1"], "evaluator": ["b:1"]},
    pytest.param({"chief": ["a:1"]}, marks=pytest.mark.long),  # tests/trainer/devices has its role
  ],
)
def test_the_evaluator_of_tf_config_evaluates_and_does_not_train(tmp_path, cluster, monkeypatch):
  monkeypatch.setitem(os.environ, "TF_CONFIG", "")
  train_to(tmp_path, 10)()
  monkeypatch.setitem(
    os.environ,
    "TF_CONFIG",
    f'{{"cluster": {cluster}, "task": {{"type": "evaluator", "index": 0}}}}'.replace("'", '"'),
  )
  log = []
  estimator = programs.estimator(tmp_path)
  assert estimator.device.role == "evaluator"
  train_and_evaluate(estimator, TrainSpec(programs.train_input, max_steps=10), evaluated(log))
  assert log == [(None, 5), (None, 10)]


def test_a_chief_with_an_evaluator_leaves_the_evaluations_to_it(tmp_path, monkeypatch):
  monkeypatch.setitem(
    os.environ,
    "TF_CONFIG",
    '{"cluster": {"chief": ["a:1"], "evaluator": ["b:1"]}, "task": {"type": "chief", "index": 0}}',
  )
  log = []
  estimator = programs.estimator(tmp_path)
  assert (
    train_and_evaluate(estimator, TrainSpec(programs.train_input, max_steps=3), evaluated(log))
    == {}
  )
  assert estimator.latest_step() == 3
  assert not log
