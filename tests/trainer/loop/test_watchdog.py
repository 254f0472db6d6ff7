"""A process that hangs ends, with the stacks of all threads."""

import pytest

from tests import long, warm
from trainer.loop import watchdog


class Timer:
  """In place of faulthandler's timer.

  Attributes:
    calls: "start" and "stop", in the order of the calls.
  """

  def __init__(self, monkeypatch):
    self.calls = []
    monkeypatch.setattr(
      watchdog.faulthandler, "dump_traceback_later", lambda *args, **kw: self.calls.append("start")
    )
    monkeypatch.setattr(
      watchdog.faulthandler, "cancel_dump_traceback_later", lambda: self.calls.append("stop")
    )
    monkeypatch.setattr(watchdog, "_BEAT_SECONDS", 0.0)


def test_stages_and_beats_restart_the_time(monkeypatch):
  timer = Timer(monkeypatch)
  dog = watchdog.Watchdog(10)
  with dog.stage("evaluation"):
    assert timer.calls == ["start"]
    with dog.stage("batch"):
      assert timer.calls == ["start"] * 2
    dog.beat()
    assert timer.calls == ["start"] * 4
  assert timer.calls == ["start"] * 4 + ["stop"]
  dog.beat()
  assert "start" not in timer.calls[4:]


def test_a_stage_that_fails_is_over(monkeypatch):
  timer = Timer(monkeypatch)
  with pytest.raises(KeyError), watchdog.Watchdog(10).stage("save"):
    raise KeyError
  assert timer.calls == ["start", "stop"]


def test_end_of_a_stage_does_not_stop_another_watchdog(monkeypatch):
  timer = Timer(monkeypatch)
  with watchdog.Watchdog(10).stage("train"):
    with watchdog.Watchdog(10).stage("evaluation of another Estimator"):
      pass
    assert "stop" not in timer.calls


def test_without_a_limit_nothing_watches(monkeypatch):
  timer = Timer(monkeypatch)
  dog = watchdog.Watchdog(None)
  with dog.stage("save"):
    dog.beat()
  assert timer.calls == []


HANGS = ["input_fn", "generator", "hook", "save"]

PROGRAM = """
import sys, threading
import tensorflow as tf
import trainer
from tests.trainer import programs
from trainer.checkpoints import directory as checkpoint

def hang_here(*args):
  threading.Event().wait()

def hanging_input(params):
  hang_here()

def hanging_generator(params):
  def rows():
    hang_here()
    yield 1.0, 1.0
  spec = tf.TensorSpec([8, 3]), tf.TensorSpec([8])
  return tf.data.Dataset.from_generator(rows, output_signature=spec)

def hanging_hook(step, metrics, estimator):
  hang_here()

what, model_dir = sys.argv[1:]
if what == "save":
  checkpoint.CheckpointDirectory._write = hang_here
estimator = programs.estimator(model_dir, stage_timeout_secs=3.0)
hanging = {"input_fn": hanging_input, "generator": hanging_generator}
input_fn = hanging.get(what, programs.train_input)
estimator.train(input_fn, max_steps=20, hooks=[hanging_hook] if what == "hook" else None)
"""


@pytest.mark.parametrize("what", long.except_for(["input_fn"], HANGS))
def test_a_planted_hang_ends_with_the_stacks(what, tmp_path):
  process = warm.run("-c", PROGRAM, what, tmp_path, timeout=280)
  assert process.returncode == 1, process.stderr[-3000:]
  assert "Timeout (0:00:03)!" in process.stderr
  assert "in hang_here" in process.stderr
