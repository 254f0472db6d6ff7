"""The hook in a training: what is sent, and when."""

import pytest

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.tracking import hook, mlflow_run, record, trackers


class Tracker:
  """Keeps what it is told, in order."""

  name = "a tracker"

  def __init__(self, model_dir, said):
    self.record = record.Record(record.path(model_dir, "test"))
    self._said = said

  def open(self, kinds):
    self._said.append("open")
    return {}

  def send(self, lines):
    self._said.append([(line["kind"], line["step"]) for line in lines])

  def set_parameters(self, parameters):
    self._said.append("parameters")

  def add_files(self, files):
    self._said.append(sorted(files))

  def close(self, status):
    self._said.append(status)


class Hook(hook.TrackingHook):
  artifacts = ("config",)
  seconds = 3600.0  # so that only what waits has the thread send

  def __init__(self):
    self.said = []

  def make_tracker(self, model_dir):
    return Tracker(model_dir, self.said)


def test_a_training_with_evaluations(tmp_path):
  following = Hook()
  trainer.train_and_evaluate(
    programs.estimator(tmp_path, save_checkpoints_steps=10, save_summary_steps=10),
    trainer.TrainSpec(programs.train_input, 20, [following]),
    trainer.EvalSpec(programs.examples(16)),
  )
  assert following.said == [
    "open",
    [("train", 10), ("eval", 10), ("train", 20), ("eval", 20)],
    *("parameters", [], trackers.FINISHED),
    *([], trackers.FINISHED),
  ]


def test_export_only_process_sends_what_a_killed_one_left(tmp_path):
  estimator = programs.estimator(tmp_path)
  estimator.train(programs.train_input, max_steps=10)
  following = Hook()
  trainer.train_and_evaluate(
    estimator,
    trainer.TrainSpec(programs.train_input, 10, [following]),
    trainer.EvalSpec(programs.examples(16)),
  )
  assert following.said == [
    "open",
    [("train", 10), ("eval", 10)],
    *("parameters", [], [], trackers.FINISHED),
  ]


def test_a_training_that_fails_says_so_and_one_that_was_ended(tmp_path):
  def fail(error):
    def raise_it(step, metrics, estimator):
      raise error

    return raise_it

  for error, status in (
    (ValueError("no"), trackers.FAILED),
    (KeyboardInterrupt(), trackers.KILLED),
  ):
    following = Hook()
    estimator = programs.estimator(tmp_path / status)
    with pytest.raises(type(error)):
      estimator.train(programs.train_input, [following, fail(error)], max_steps=5)
    assert following.said == ["open", status]


def test_without_mlflow_the_hook_says_how_to_install_it(monkeypatch):
  monkeypatch.setattr(mlflow_run.importlib.util, "find_spec", lambda name: None)
  with pytest.raises(
    errors.SettingError, match=r"MLflowHook needs MLflow: pip install .*\[mlflow\]"
  ):
    trainer.MLflowHook()


def test_an_address_that_is_none(monkeypatch):
  monkeypatch.setattr(mlflow_run, "require", lambda: None)
  with pytest.raises(errors.SettingError, match="tracking_uri = 'htp://host'.*http://127.0.0.1"):
    trainer.MLflowHook(tracking_uri="htp://host")
  with pytest.raises(errors.SettingError, match="artifacts"):
    trainer.MLflowHook(artifacts=["everything"])


def test_a_password_is_not_shown():
  assert mlflow_run.without_password("https://me:secret@host/x") == "https://host/x"
