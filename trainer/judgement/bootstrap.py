"""Intervals of figures by the bootstrap, which draws the examples again with replacement.

    drawn = bootstrap.draws(figures, examples=360, resamples=1000, seed=1)
    bootstrap.interval(drawn["accuracy"], 0.95)

A function computes the figures from how often a resample has each example, as scikit-learn's
functions take sample_weight.

Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13: percentile intervals.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

# Function of how often each example counts, float64 [examples]; returns name → a number, or a
# number for each class.
Figures = Callable[[np.ndarray], Mapping[str, Any]]

# Draw at most so many numbers at once: 32 MB. The draws of a seed depend on the number of examples
# alone. A pair of models needs the same resamples for both.
_AT_ONCE = 4_000_000


def draws(figures: Figures, examples: int, resamples: int, seed: int) -> dict[str, np.ndarray]:
  """Returns name → [resamples, ...] of the figures of each resample.

  Two calls with the same number of examples and the same seed draw the same examples, so the
  difference of their results is a paired bootstrap.

  Args:
    figures: computes the figures of a resample.
    examples: the number of examples, at least one.
    resamples: how many resamples to draw.
    seed: seed of the draws.
  """
  length = max(1, _AT_ONCE // examples)
  found = []
  for first in range(0, resamples, length):
    random = np.random.default_rng([seed, first])
    chosen = random.integers(examples, size=(min(length, resamples - first), examples))
    found += [figures(np.bincount(row, minlength=examples).astype(np.float64)) for row in chosen]
  return {name: np.array([each[name] for each in found]) for name in found[0]}


def interval(drawn: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
  """Returns (low, high) of a percentile interval along the first axis.

  The interval leaves out resamples without a defined figure (NaN). For instance, a resample without
  an example of a class does not define the recall of that class.
  """
  outside = (1 - confidence) / 2
  # nanquantile warns about columns of NaN alone. They are 0 here and NaN below.
  is_empty = np.isnan(drawn).all(axis=0)
  low, high = np.nanquantile(np.where(is_empty, 0, drawn), [outside, 1 - outside], axis=0)
  return np.where(is_empty, np.nan, low), np.where(is_empty, np.nan, high)


def estimates(
  figures: Figures,
  examples: int,
  resamples: int,
  confidence: float,
  seed: int,
  reflected: Collection[str] = (),
) -> dict[str, Any]:
  """Returns name → {"value", "low", "high"} of each figure; lists of them for figures of classes.

  None means an undefined number.

  Args:
    figures: see `draws`.
    examples: see `draws`.
    resamples: see `draws`.
    confidence: see `interval`.
    seed: see `draws`.
    reflected: names of figures that cannot be negative and that are on average larger in a resample
      than in the set, such as a mean of distances. The function reflects their intervals about the
      value: the basic bootstrap, Davison and Hinkley, "Bootstrap Methods and their Application"
      (1997), 5.2.
  """
  drawn = draws(figures, examples, resamples, seed)
  found = {}
  for name, value in figures(np.ones(examples)).items():
    low, high = interval(drawn[name], confidence)
    if name in reflected:
      low, high = np.maximum(2 * value - high, 0), 2 * value - low
    found[name] = _described(value, low, high)
  return found


def _described(value, low, high):
  if np.ndim(value):
    return [_described(*each) for each in zip(value, low, high, strict=True)]
  return {
    name: float(number) if np.isfinite(number) else None
    for name, number in (("value", value), ("low", low), ("high", high))
  }


def share(part: Any, whole: Any) -> np.ndarray:
  """Returns part / whole, in float64; NaN where the whole is 0."""
  part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
  return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)
