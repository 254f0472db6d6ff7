"""Comparisons: noise is called noise, a difference is called one, over seeds too."""

import numpy as np
import pytest

from tests.trainer.judgement import observed
from trainer import errors
from trainer.judgement import differences

Run = differences.Run


def compare(tmp_path, first, second, **more):
  """Compares sides of arrays."""
  sides = [
    [
      Run(observed.write(tmp_path / f"{side}{number}", arrays))
      for number, arrays in enumerate(of_side)
    ]
    for side, of_side in (("a", first), ("b", second))
  ]
  return differences.compare(*sides, **more)


def swapped(first, second, seed):
  """Swaps the predictions of two models for a random half of the examples."""
  takes = np.random.default_rng(seed).random(len(first["label"])) < 0.5
  return [
    {name: np.where(takes == flag, first[name], second[name]) for name in first}
    for flag in (True, False)
  ]


def test_randomly_swapped_predictions_differ_by_noise(tmp_path):
  first, second = observed.classes(300, right=0.87), observed.classes(300, right=0.8, seed=2)
  called = [
    not compare(tmp_path, [one], [other], resamples=200).differences["accuracy"].is_noise
    for one, other in (swapped(first, second, seed) for seed in range(100))
  ]
  assert sum(called) <= 11  # of 100, where 5 are expected


def test_87_against_80_percent_of_10000_is_more_than_noise(tmp_path):
  first = observed.classes(10_000, right=0.87)
  second = observed.classes(10_000, right=0.8, seed=2)
  found = compare(tmp_path, [first], [second], resamples=200)
  accuracy = found.differences["accuracy"]
  assert (found.examples, found.runs) == (10_000, (1, 1))
  assert not accuracy.is_noise
  assert accuracy.low < accuracy.second - accuracy.first < accuracy.high < -0.05
  assert set(found.differences) == {"accuracy", "macro_f1", "log_loss", "ece"}


def test_what_is_hard_for_both_does_not_count_as_noise(tmp_path):
  first = observed.classes(1000, right=0.7)
  second = {name: array.copy() for name, array in first.items()}
  mended = np.flatnonzero(first["label"] != first["predicted"])[:12]
  second["predicted"][mended] = second["label"][mended]
  accuracy = compare(tmp_path, [first], [second]).differences["accuracy"]
  assert accuracy.second - accuracy.first == pytest.approx(0.012)
  assert not accuracy.is_noise  # two sets of examples would need a difference of 0.04


def test_with_several_seeds_the_interval_is_over_seeds_too(tmp_path):
  shares = [[0.85, 0.75, 0.8], [0.79, 0.85, 0.9]]
  sides = [
    [
      observed.classes(20_000, right=share, seed=3 * side + number)
      for number, share in enumerate(of)
    ]
    for side, of in enumerate(shares)
  ]
  one = compare(tmp_path, [sides[0][2]], [sides[1][1]], resamples=100).differences["accuracy"]
  several = compare(tmp_path, *sides, resamples=100).differences["accuracy"]
  assert not one.is_noise
  assert several.is_noise
  # Student's t with 4 degrees of freedom, and the standard error of the two means.
  values = [[np.mean(each["label"] == each["predicted"]) for each in side] for side in sides]
  reach = 2.776 * np.sqrt(sum(np.var(each, ddof=1) for each in values) / 3)
  assert several.high - several.low == pytest.approx(2 * reach, rel=0.1)


def test_numbers_are_compared_by_their_errors(tmp_path):
  sides = [
    Run(observed.write(tmp_path / str(noise), observed.numbers(noise=noise), kind="numbers"))
    for noise in (1.0, 3.0)
  ]
  found = differences.compare(sides[:1], sides[1:])
  assert list(found.differences) == ["mae", "rmse", "r2"]
  assert not found.differences["rmse"].is_noise


def test_other_examples_and_missing_reports_are_told(tmp_path):
  one = Run(observed.write(tmp_path / "a", observed.classes(20), step=10))
  other = Run(observed.write(tmp_path / "b c", observed.classes(21)))
  number = Run(observed.write(tmp_path / "c", observed.numbers(20), kind="numbers"))
  with pytest.raises(errors.SettingError, match="20 examples, .* 21"):
    differences.compare([one], [other])
  with pytest.raises(errors.SettingError, match="predicts classes, and .* predicts numbers"):
    differences.compare([one], [number])
  with pytest.raises(errors.SettingError, match="@20 has no report .* of the steps 10"):
    differences.compare([one], [Run(one.model_dir, 20)])
  command = r"\n  python -m trainer\.main --gin_file='.*/b c'/config\.gin --model_dir='.*/b c' "
  with pytest.raises(errors.SettingError, match=rf"of the evaluation 'test'\.[^:]*:{command}"):
    differences.compare([other], [one], "test")
