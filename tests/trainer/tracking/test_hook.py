"""What a tracking hook sends in a training, and when."""

import math
import threading
import types

import pytest

import trainer
from tests.trainer import programs
from trainer.loop import preemption
from trainer.reporting import metrics_file
from trainer.tracking import hook, record


class Hook(hook.TrackingHook):
  """Keeps what it is told, in order."""

  name = "a tracker"
  artifacts = ("config",)
  seconds = 3600.0  # so that only the end has the thread send

  def __init__(self):
    self.said = []

  def open(self, model_dir, kinds):
    self.record = record.read(model_dir, "test") or record.Record(record.path(model_dir, "test"))
    self.said.append("open")
    newest = self.record.sent
    return {kind: range(newest[kind] + 1) for kind in kinds if kind in newest}

  def send(self, lines):
    self.said.append([(line["kind"], line["step"]) for line in lines])

  def set_parameters(self, parameters):
    self.said.append("parameters")

  def add_files(self, files):
    self.said.append(sorted(files))

  def close(self, status):
    self.said.append(status)


def train_and_evaluate(folder, max_steps, following):
  trainer.train_and_evaluate(
    programs.estimator(folder, save_checkpoints_steps=10, save_summary_steps=10),
    trainer.TrainSpec(programs.train_input, max_steps, [following]),
    trainer.EvalSpec(programs.examples(16)),
  )


def test_a_training_with_evaluations(tmp_path):
  following = Hook()
  train_and_evaluate(tmp_path, 20, following)
  assert following.said == [
    "open",
    [("train", 10), ("eval", 10), ("train", 20), ("eval", 20)],
    *("parameters", [], hook.FINISHED),
    *("open", "parameters", [], hook.FINISHED),
  ]


def test_an_estimator_alone_sends_at_its_end(tmp_path):
  following = Hook()
  estimator = programs.estimator(tmp_path, save_summary_steps=10)
  estimator.train(programs.train_input, [following], max_steps=10)
  assert following.said == ["open", [("train", 10)], "parameters", [], hook.FINISHED]


def test_export_only_process_sends_what_a_killed_one_left(tmp_path):
  estimator = programs.estimator(tmp_path)
  estimator.train(programs.train_input, max_steps=10)
  following = Hook()
  train_and_evaluate(tmp_path, 10, following)
  assert following.said == [
    "open",
    [("train", 10), ("eval", 10)],
    *("parameters", [], hook.FINISHED),
  ]


@pytest.mark.parametrize(
  ("error", "status"),
  [
    (ValueError("no"), hook.FAILED),
    (KeyboardInterrupt(), hook.KILLED),
    (preemption.Preempted(), hook.KILLED),
  ],
)
def test_a_training_that_fails_says_so_and_hurries(tmp_path, error, status, monkeypatch):
  patience = []
  join = threading.Thread.join
  monkeypatch.setattr(
    threading.Thread,
    "join",
    lambda self, timeout=None: (
      patience.append(timeout) if self.name == "tracking" else None,
      join(self),
    ),
  )

  def fail(step, metrics, estimator):
    raise error

  following = Hook()
  estimator = programs.estimator(tmp_path)
  with pytest.raises(type(error)):
    estimator.train(programs.train_input, [following, fail], max_steps=5)
  assert following.said == ["open", "parameters", [], status]
  assert patience == [2.0]


def test_only_the_chief_sends(tmp_path):
  device = types.SimpleNamespace(is_chief=False)
  estimator = types.SimpleNamespace(device=device, model_dir=str(tmp_path), latest_step=lambda: 10)
  following = Hook()
  for call in (
    lambda: following.begin(estimator),
    lambda: following(20, {}, estimator),
    lambda: following.end(20, estimator),
    lambda: following.failed(ValueError("x"), estimator),
    lambda: following.finished(estimator),
  ):
    call()
  assert following.said == []


def test_metrics_have_the_kind_and_none_is_nan(tmp_path):
  values = {"loss": 1, "ok": True, "bad": math.inf, "a/b": 0.1, "step": 3.0, "kind": 4.0}
  metrics_file.append(str(tmp_path), "eval_test", 10, values)
  [line] = metrics_file.read(str(tmp_path))
  found = hook.values_of(line)
  assert math.isnan(found.pop("eval_test/bad"))
  assert found == {
    "eval_test/loss": 1.0,
    "eval_test/ok": 1.0,
    "eval_test/a/b": 0.1,
    "eval_test/step_": 3.0,
    "eval_test/kind_": 4.0,
  }
  assert all(type(value) is float for value in found.values())
