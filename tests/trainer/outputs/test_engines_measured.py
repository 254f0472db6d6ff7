"""Engines are measured in turns, and the fastest for a batch size runs it."""

import numpy as np
import pytest

from tests.trainer.outputs import timed_engines as timed
from trainer.outputs import engines


def test_the_fastest_is_the_one_that_takes_the_least_time():
  clock = timed.Clock()
  one = timed.Timed("quick to start", clock, 1, 5)
  other = timed.Timed("quick at work", clock, 10, 1)
  by_size = {}
  for size in (1, 20):
    seconds = engines.measure([one, other], {"x": np.zeros(size)}, clock)
    by_size[size] = min((one, other), key=lambda candidate: seconds[candidate.name])
  assert list(by_size.values()) == [one, other]
  fastest = engines.FastestEngine(by_size, reference=one)
  assert fastest.name == "quick to start+quick at work"
  one.sizes, other.sizes = [], []
  for rows in (1, 19, 20, 21):
    fastest.predict_batch({"x": np.zeros(rows)})
  assert (one.sizes, other.sizes) == ([1, 19], [20, 21])


def test_measuring_fills_its_time_and_takes_longer_if_slow():
  clock = timed.Clock()
  quick, slow = timed.Timed("quick", clock, 0.03, 0), timed.Timed("slow", clock, 0.07, 0)
  engines.measure([quick, slow], {"x": np.zeros(1)}, clock, at_least=1.0)
  assert 9 <= len(quick.sizes) - 2 <= 10  # two calls were to warm up
  very_slow = timed.Timed("very slow", clock, 9, 0)
  engines.measure([very_slow], {"x": np.zeros(1)}, clock, at_least=1.0)
  assert len(very_slow.sizes) == 2 + engines._ROUNDS


def test_measured_time_is_a_usual_call_after_the_same_engine():
  clock = timed.Clock()
  clock.disturbed = False

  class Spinning(timed.Timed):
    """Whose threads disturb the engine that comes next."""

    def predict_batch(self, features):
      super().predict_batch(features)
      clock.disturbed = True

  class Disturbed(timed.Timed):
    def predict_batch(self, features):
      clock.now += clock.disturbed
      clock.disturbed = False
      super().predict_batch(features)

  candidates = [Spinning("spinning", clock, 0.002, 0), Disturbed("disturbed", clock, 0.001, 0)]
  found = engines.measure(candidates, {"x": np.zeros(1)}, clock, at_least=20.0)
  assert found == {"spinning": pytest.approx(0.002), "disturbed": pytest.approx(0.001)}


class Failing(timed.Timed):
  """Fails for batches of an odd size."""

  def predict_batch(self, features):
    if len(features["x"]) % 2:
      raise RuntimeError("odd\n and more lines")
    return super().predict_batch(features)


def test_tensorflow_takes_over_from_an_engine_that_fails(caplog):
  clock = timed.Clock()
  failing, tensorflow = (Failing("failing", clock, 0, 0), timed.Timed("tensorflow", clock, 0, 0))
  fastest = engines.FastestEngine({1: failing, 8: failing}, tensorflow)
  with caplog.at_level("WARNING"):
    for rows in (2, 3, 2):
      assert len(fastest.predict_batch({"x": np.zeros(rows)})["x"]) == rows
  assert (failing.sizes, tensorflow.sizes, fastest.name) == ([2], [3, 2], "tensorflow")
  (record,) = caplog.records
  assert record.getMessage() == (
    "The engine failing failed for 3 examples; TensorFlow runs them and all later ones. "
    "RuntimeError: odd."
  )


def test_features_at_fault_are_no_engines_failure(caplog):
  clock = timed.Clock()
  failing = Failing("failing", clock, 0, 0)
  fastest = engines.FastestEngine({1: failing}, Failing("tensorflow", clock, 0, 0))
  with pytest.raises(RuntimeError, match="odd"):
    fastest.predict_batch({"x": np.zeros(1)})
  assert (fastest.name, caplog.records) == ("failing", [])
