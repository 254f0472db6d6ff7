"""Intervals: they hold what they say, and two models are resampled by the same examples."""

import numpy as np
import pytest

from trainer.judgement import bootstrap


def mean(values):
  return lambda times: {"mean": (times * values).sum() / times.sum()}


def test_the_interval_is_that_of_the_normal_distribution():
  values = np.random.default_rng(1).normal(3, 2, size=400)
  found = bootstrap.estimates(mean(values), 400, 4000, 0.95, seed=1)["mean"]
  reach = 1.96 * values.std() / 20
  assert found["value"] == pytest.approx(values.mean())
  assert found["low"] == pytest.approx(values.mean() - reach, abs=0.02)
  assert found["high"] == pytest.approx(values.mean() + reach, abs=0.02)


def test_equal_seeds_draw_equal_examples_also_of_other_figures(monkeypatch):
  values = np.arange(50.0)
  first = bootstrap.draws(mean(values), 50, 20, seed=1)["mean"]
  wider = lambda times: {"largest": times.max(), **mean(values)(times)}
  np.testing.assert_array_equal(bootstrap.draws(wider, 50, 20, seed=1)["mean"], first)
  assert (bootstrap.draws(mean(values), 50, 20, seed=2)["mean"] != first).any()
  monkeypatch.setattr(bootstrap, "_AT_ONCE", 100)
  assert bootstrap.draws(mean(values), 50, 7, seed=1)["mean"].shape == (7,)


def test_what_no_resample_defines_has_no_interval():
  low, high = bootstrap.interval(np.array([[np.nan, 1.0], [np.nan, np.nan]]), 0.95)
  assert np.isnan([low[0], high[0]]).all()
  assert (low[1], high[1]) == (1, 1)


def test_reflected_interval_is_mirrored_and_not_below_0():
  values = np.random.default_rng(1).normal(0, 1, size=100)
  distance = lambda times: {"far": np.abs(mean(values)(times)["mean"])}
  plain = bootstrap.estimates(distance, 100, 500, 0.95, 1)["far"]
  found = bootstrap.estimates(distance, 100, 500, 0.95, 1, reflected=["far"])["far"]
  assert found["high"] == pytest.approx(2 * plain["value"] - plain["low"])
  assert found["low"] == 0
