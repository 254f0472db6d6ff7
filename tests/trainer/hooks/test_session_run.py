"""Hooks that were written for sessions are called where they would have been, with values by
name.
"""

import keras
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.hooks import session_run

v1 = tf.compat.v1


class Hook(v1.train.SessionRunHook):
  """Writes down what it is called with, and stops at a step."""

  def __init__(self, stop_at=10**9, fetches=("loss", "global_step:0")):
    self.calls = []
    self._stop_at = stop_at
    self._fetches = list(fetches)

  def begin(self):
    self.calls.append("begin")

  def after_create_session(self, session, coord):
    self.calls.append(("session", session, coord))

  def before_run(self, run_context):
    self.calls.append("before")
    return v1.train.SessionRunArgs(self._fetches)

  def after_run(self, run_context, run_values):
    loss, step = run_values.results
    self.calls.append(("after", isinstance(loss, float), step))
    if step >= self._stop_at:
      run_context.request_stop()

  def end(self, session):
    self.calls.append(("end", session))


def test_the_order_of_calls(tmp_path):
  hook = Hook(stop_at=8)
  estimator = programs.estimator(tmp_path, **programs.fixed_loops(4))
  estimator.train(programs.train_input, hooks=[hook], max_steps=100)
  assert hook.calls == [
    "begin",
    ("session", None, None),
    "before",
    ("after", True, 4),
    "before",
    ("after", True, 8),
    ("end", None),
  ]
  assert estimator.latest_step() == 8


def test_in_an_evaluation(tmp_path):
  estimator = programs.estimator(tmp_path)
  estimator.train(programs.train_input, max_steps=3)
  hook = Hook()
  estimator.evaluate(programs.examples(11), hooks=[hook])
  assert hook.calls == [
    "begin",
    ("session", None, None),
    "before",
    ("after", True, 3),
    ("end", None),
  ]


def test_a_fetch_that_there_is_not(tmp_path):
  with pytest.raises(
    errors.SettingError,
    match="The hook Hook asks for 'dense/kernel'; without a "
    "session there is global_step, learning_rate, "
    "loss",
  ):
    programs.estimator(tmp_path).train(
      programs.train_input, hooks=[Hook(fetches=["dense/kernel", "loss"])], max_steps=2
    )


def test_a_class_without_parentheses_is_no_hook():
  with pytest.raises(errors.SettingError, match=r"train has the class Histograms.*Histograms\(\)"):
    session_run.adapt([trainer.Histograms], "train")


def test_a_callback_of_keras_is_refused():
  with pytest.raises(errors.SettingError, match="train: EarlyStopping is a callback of Keras"):
    session_run.adapt([keras.callbacks.EarlyStopping()], "train")
