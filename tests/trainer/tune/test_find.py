"""The searches of trainer.tune: their progress, and the experiment that they search for."""

import types

import pytest

from trainer import errors
from trainer.compare import results
from trainer.preflight import bindings
from trainer.settings.kinds import Kind
from trainer.tune import batch_sizes, find, learning_rates, memory

SETTINGS = {"device": "cpu", "precision": "float32", "seed": None}


@pytest.fixture
def asked():
  """An experiment in its place."""
  sizes = {Kind.TRAIN: types.SimpleNamespace(global_size=32)}
  device = types.SimpleNamespace(replicas=8)
  estimator = types.SimpleNamespace(device=device, batch_sizes=lambda: sizes)
  return find.Asked(types.SimpleNamespace(train_input_fn=len), SETTINGS, estimator)


def test_an_experiment_without_a_training_is_refused(monkeypatch):
  run = types.SimpleNamespace(train_input_fn=None)
  monkeypatch.setattr(bindings, "asked_by_gin", lambda: run)
  with pytest.raises(errors.SettingError, match=r"bind run\.train_input_fn"):
    find.Asked.by_gin(SETTINGS)


def test_a_sweep_of_rates_tells_its_progress(asked, monkeypatch, capsys):
  def sweep(estimator, input_fn, low, high, steps, tell):
    assert input_fn is len
    for step in range(1, steps + 1):
      tell(step, low * step, 1.0 / step)
    return "found"

  monkeypatch.setattr(learning_rates, "sweep", sweep)
  assert asked.learning_rate(0.001, 1.0, 25) == "found"
  lines = capsys.readouterr().out.splitlines()
  assert len(lines) == 12
  assert lines[0] == "step 2 of 25: learning rate 0.002, loss 0.5"


def test_a_search_of_sizes_tells_each(asked, monkeypatch, capsys):
  speeds = {32: 100, 64: 300}

  def measure(size, request, limit, timeout):
    assert request == {"gin_files": ["a.gin"], "flags": SETTINGS}
    assert (limit, timeout) == (2**30, 9.0)
    if size not in speeds:
      return batch_sizes.Measured(size, results.OUT_OF_MEMORY, "too large")
    return batch_sizes.Measured(size, results.OK, "", 1.0, float(speeds[size]), 1)

  monkeypatch.setattr(batch_sizes, "measure", measure)
  monkeypatch.setattr(memory, "limit_bytes", lambda: 2**30)
  found = asked.batch_size(128, 9.0, {"gin_files": ["a.gin"]})
  assert [each.batch_size for each in found if each.fits] == [32, 64]
  lines = capsys.readouterr().out.splitlines()
  assert lines[:3] == [
    "batch size 32: 100 examples/s",
    "batch size 64: 300 examples/s",
    "batch size 128: out of memory",
  ]


def test_the_first_size_is_tried_even_if_it_is_too_large(asked, monkeypatch):
  tried = []

  def measure(size, *_):
    tried.append(size)
    return batch_sizes.Measured(size, results.OK, "", 1.0, 5.0, 1)

  monkeypatch.setattr(batch_sizes, "measure", measure)
  monkeypatch.setattr(memory, "limit_bytes", lambda: 2**30)
  asked.batch_size(1, 9.0, {})
  assert tried == [32]
