"""A served model: its answers, and newer exports that cannot load."""

import asyncio
import threading
import types

import numpy as np
import pytest

from trainer.outputs import engines
from trainer.serving import calls, service


class Doubling(engines.Engine):
  name = "doubling"

  def predict_batch(self, features):
    return {"y": 2 * features["x"]}


class Measurements:
  def __init__(self):
    self.batches, self.failures = [], []

  def add_batch(self, name, examples):
    self.batches.append((name, examples))

  def add_reload_failure(self, name):
    self.failures.append(name)


class Predictor:
  """Loads nothing; fails with these errors, one after the other."""

  def __init__(self, *failures):
    self.failures = list(failures)
    self.asked = threading.Event()

  def reload_if_newer(self):
    self.asked.set()
    if error := self.failures.pop(0) if self.failures else None:
      raise error


@pytest.fixture
def make():
  made = []

  def make(*failures, **settings):
    made.append(service.Service(Predictor(*failures), "cats", Measurements(), **settings))
    return made[-1]

  yield make
  for each in made:
    each.close()


@pytest.mark.parametrize(("size", "is_aside"), [(10, False), (1 << 16, True)])
def test_large_bodies_are_read_in_another_thread(make, size, is_aside):
  threads = []

  def read(body, loaded):
    threads.append(threading.current_thread())

    def write(outputs):
      threads.append(threading.current_thread())
      return bytes(outputs["y"].tolist())

    return calls.Call("serving_default", {"x": np.array([1, 2])}, write)

  loaded = types.SimpleNamespace(engines={"serving_default": Doubling()})
  served = make()
  answer = asyncio.run(served.run(read, bytes(size), loaded))
  assert answer == bytes([2, 4])
  assert served.measurements.batches == [("cats", 2)]
  assert [each is not threading.main_thread() for each in threads] == [is_aside] * 2


def test_a_failing_export_is_logged_once_until_it_changes(make, caplog):
  broken = ValueError("no variables")
  served = make(broken, broken, OSError("no disk"), None, broken)
  for _ in range(5):
    served.reload()
  logged = [each.getMessage().rpartition(". ")[2] for each in caplog.records]
  assert logged == ["no variables", "no disk", "no variables"]
  assert served.measurements.failures == ["cats"] * 3


def test_the_thread_survives_failures_and_ends_with_the_service(make):
  served = make(ValueError("x"), reload_secs=0.001)
  served.start()
  assert served.predictor.asked.wait(60)
  served.predictor.asked.clear()
  assert served.predictor.asked.wait(60)
  served.close()
  assert not served._reloader.is_alive()


def test_without_checks_there_is_no_thread(make):
  served = make(reload_secs=0.0)
  served.start()
  assert served._reloader is None
