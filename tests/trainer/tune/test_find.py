"""The searches of trainer.tune: their progress, and the bindings of their results."""

import types

import pytest

from trainer import errors
from trainer.compare import results
from trainer.settings.kinds import Kind
from trainer.tune import batch_sizes, find, learning_rates, memory, suggestion


@pytest.fixture
def asked(monkeypatch):
  """(Asked, its lines of progress) of an experiment in its place."""
  lines = []
  run = types.SimpleNamespace(
    train_input_fn=len, params={"lr": 1}, train_per_core_batch_size=None, train_batch_size=32
  )
  sizes = {Kind.TRAIN: types.SimpleNamespace(global_size=32)}
  estimator = types.SimpleNamespace(
    device=types.SimpleNamespace(replicas=8), batch_sizes=lambda: sizes
  )
  made = find.Asked("cpu", "float32", None, ("a.gin",), (), (), lines.append)
  made.__dict__.update(run=run, estimator=estimator)  # in place of the cached properties
  return made, lines


def test_an_experiment_without_a_training_is_refused(asked):
  made, _ = asked
  made.run.train_input_fn = None
  with pytest.raises(errors.SettingError, match=r"bind run\.train_input_fn"):
    _ = made.train_input_fn


@pytest.mark.parametrize(("rate", "bindings"), [(0.01, ("lr = 0.01",)), (None, ())])
def test_only_a_suggested_rate_has_bindings(asked, monkeypatch, rate, bindings):
  made, lines = asked

  def sweep(estimator, input_fn, low, high, steps, tell):
    for step in range(1, steps + 1):
      tell(step, low * step, 1.0 / step)
    return types.SimpleNamespace(suggestion=rate)

  monkeypatch.setattr(learning_rates, "sweep", sweep)
  monkeypatch.setattr(suggestion, "learning_rate", lambda value, params: [f"lr = {value:.2g}"])
  assert made.learning_rate(0.001, 1.0, 25)["rate_bindings"] == bindings
  assert len(lines) == 12
  assert lines[0] == "step 2 of 25: learning rate 0.002, loss 0.5"


@pytest.mark.parametrize(
  ("speeds", "bindings"),
  [
    ({32: 100, 64: 300, 128: 310}, ["run.train_batch_size = 128", "run.train_batch_size = 64"]),
    ({32: 100, 64: 300}, ["run.train_batch_size = 64  # the fastest"]),
  ],
)
def test_a_search_of_sizes_tells_each_and_the_best(asked, monkeypatch, speeds, bindings):
  made, lines = asked

  def measure(size, request, limit, timeout):
    assert request["flags"] == {"device": "cpu", "precision": "float32", "seed": None}
    assert (limit, timeout) == (2**30, 9.0)
    if size not in speeds:
      return batch_sizes.Measured(size, results.OUT_OF_MEMORY, "too large")
    return batch_sizes.Measured(size, results.OK, "", 1.0, float(speeds[size]), 1)

  monkeypatch.setattr(batch_sizes, "measure", measure)
  monkeypatch.setattr(memory, "limit_bytes", lambda: 2**30)
  found = made.batch_size(128 if 128 in speeds else 64, 1.0, 9.0)["size_bindings"]
  assert [each.partition("  ")[0] for each in found] == [
    each.partition("  ")[0] for each in bindings
  ]
  assert lines[:2] == ["batch size 32: 100 examples/s", "batch size 64: 300 examples/s"]


def test_the_first_size_is_tried_even_if_it_is_too_large(asked, monkeypatch):
  made, _ = asked
  tried = []

  def measure(size, *_):
    tried.append(size)
    return batch_sizes.Measured(size, results.OK, "", 1.0, 5.0, 1)

  monkeypatch.setattr(batch_sizes, "measure", measure)
  monkeypatch.setattr(memory, "limit_bytes", lambda: 2**30)
  made.batch_size(1, 1.0, 9.0)
  assert tried == [32]
