"""What hangs is named, with the stacks of all threads, and the process ends."""

import threading

import pytest

from tests import long, warm
from trainer.loop import watchdog


def test_a_stage_that_takes_too_long_is_named():
  told, ended = [], threading.Event()

  def end(sentence):
    told.append(sentence)
    ended.set()

  now = [0.0]  # stands still until both stages have begun, however slow the machine is
  dog = watchdog.Watchdog(0.01, end, clock=lambda: now[0])
  with dog.stage("outer"), dog.stage("save"):
    now[0] = 1.0
    assert ended.wait(60)
  assert told == ['The stage "save" has not ended for 0.01 s (gin: RunConfig.stage_timeout_secs).']


def test_an_outer_stage_begins_anew_when_an_inner_one_has_ended():
  now, ended = [0.0], threading.Event()
  dog = watchdog.Watchdog(10, lambda sentence: ended.set(), clock=lambda: now[0])
  with dog.stage("evaluation"):
    for _ in range(5):
      now[0] += 9  # 45 in all
      with dog.stage("batch"):
        pass
    for _ in range(5):
      now[0] += 9
      dog.beat()
  assert not ended.is_set()


def test_each_thread_has_stages_of_its_own():
  """A thread whose stage ends, or gets on, says nothing of another's."""
  now, ended, told = [0.0], threading.Event(), []

  def end(sentence):
    told.append(sentence)
    ended.set()

  dog = watchdog.Watchdog(10, end, clock=lambda: now[0])
  entered, leave = threading.Event(), threading.Event()

  def hang():
    with dog.stage("hangs"):
      entered.set()
      assert leave.wait(60)

  thread = threading.Thread(target=hang)
  thread.start()
  assert entered.wait(60)
  with dog.stage("evaluation"):
    now[0] = 9
    dog.beat()
  now[0] = 11
  with dog.stage("another"):
    assert ended.wait(60)
  leave.set()
  thread.join()
  assert "hangs" in told[0]


def test_without_a_limit_nothing_watches():
  before = threading.active_count()
  with watchdog.Watchdog(None).stage("save"):
    assert threading.active_count() == before


HANGS = {
  "input_fn": "train input_fn hanging_input",
  "generator": "first training steps: first batch, compilation",
  "hook": "hook hanging_hook",
  "save": "save a checkpoint",
}

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
def test_a_planted_hang_ends_with_its_stage_and_the_stacks(what, tmp_path):
  process = warm.run("-c", PROGRAM, what, tmp_path, timeout=280)
  assert process.returncode == watchdog.EXIT_CODE, process.stderr[-3000:]
  assert f'The stage "{HANGS[what]}" has not ended for 3 s' in process.stderr
  assert "in hang_here" in process.stderr
