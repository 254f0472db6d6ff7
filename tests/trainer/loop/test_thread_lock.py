"""Turns: one thread at a time, the same one again at once, and nobody waits for a training."""

import os
import threading
from concurrent import futures

import pytest

from trainer import errors
from trainer.loop import thread_lock


def test_a_thread_waits_until_the_other_is_done():
  estimator, order = thread_lock.ThreadLock("the Estimator"), []
  inside, waits = threading.Event(), threading.Event()

  def second():
    assert inside.wait(60)
    waits.set()
    with estimator.hold("predict"):
      order.append("second")

  with futures.ThreadPoolExecutor(1) as pool:
    done = pool.submit(second)
    with estimator.hold("evaluate"):
      inside.set()
      assert waits.wait(60)
      with estimator.hold("predict"):  # as a hook does
        assert not done.done()
      order.append("first")
    done.result(60)
  assert order == ["first", "second"]


def test_a_turn_ends_with_an_error():
  estimator = thread_lock.ThreadLock("the Estimator")
  with pytest.raises(KeyError), estimator.hold("evaluate"):
    raise KeyError
  with futures.ThreadPoolExecutor(1) as pool:
    assert pool.submit(lambda: estimator.hold("train").__enter__()).result(60) is None


def test_a_training_is_not_waited_for():
  estimator = thread_lock.ThreadLock("the Estimator of out/digits")

  def evaluate():
    with estimator.hold("evaluate"):
      pass

  with futures.ThreadPoolExecutor(1) as pool:
    with estimator.hold("train"):
      evaluate()  # a hook of the training's own
      said = "^evaluate: another thread trains with the Estimator of out/digits, .* of its own"
      with pytest.raises(errors.SettingError, match=said):
        pool.submit(evaluate).result(60)
    pool.submit(evaluate).result(60)


def test_a_fork_hears_that_it_is_one(monkeypatch):
  estimator = thread_lock.ThreadLock("the Estimator of out/digits")
  parent = os.getpid()
  monkeypatch.setattr(thread_lock.os, "getpid", lambda: parent + 1)
  with pytest.raises(errors.SettingError, match=f"evaluate: .* fork of process {parent}, .*spawn"):
    with estimator.hold("evaluate"):
      pass
