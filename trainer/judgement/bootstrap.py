"""Intervals of figures by the bootstrap, which draws the examples again with replacement.

    rows = scipy.sparse.csr_array(...)         # [examples, columns], an example's part of the sums
    drawn = bootstrap.draws(rows, figures, resamples=1000, seed=1)
    bootstrap.interval(drawn["accuracy"], 0.95)

Every figure here is a function of sums over the examples, such as the number of right predictions.
So one product of matrices gives the sums of many resamples at once. scikit-learn's functions take
one set at a time; the tests compare with them.

Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13: percentile intervals.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

Figures = Callable[[np.ndarray], Mapping[str, np.ndarray]]

# Draw at most so many numbers at once: 32 MB. The draws of a seed depend on the number of examples
# alone. A pair of models needs the same resamples for both.
_AT_ONCE = 4_000_000


def draws(rows: Any, figures: Figures, resamples: int, seed: int) -> dict[str, np.ndarray]:
  """Returns the figures of each resample.

  Two calls with the same number of examples and the same seed draw the same examples, so the
  difference of their results is a paired bootstrap.

  Args:
    rows: sparse [examples, columns], at least one example.
    figures: function of the sums, float64 [resamples, columns], that returns a dict of arrays
      [resamples, ...].
    resamples: how many resamples to draw.
    seed: seed of the draws.
  """
  examples, transposed = rows.shape[0], rows.T.tocsr()
  length = max(1, _AT_ONCE // examples)
  found = []
  for first in range(0, resamples, length):
    count = min(length, resamples - first)
    random = np.random.default_rng([seed, first])
    chosen = random.integers(examples, size=(count, examples))
    places = chosen + examples * np.arange(count)[:, np.newaxis]
    times = np.bincount(places.ravel(), minlength=count * examples).reshape(count, examples)
    found.append(figures((transposed @ times.T).T))
  return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def figures_of_all(rows: Any, figures: Figures) -> dict[str, np.ndarray]:
  """Returns the figures of all examples, each once, in arrays without the axis of resamples."""
  sums = np.asarray(rows.sum(axis=0), np.float64).reshape(1, -1)
  return {name: value[0] for name, value in figures(sums).items()}


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
  rows: Any,
  figures: Figures,
  resamples: int,
  confidence: float,
  seed: int,
  reflected: Collection[str] = (),
) -> dict[str, Any]:
  """Returns name → {"value", "low", "high"} of each figure; lists of them for figures of classes.

  None means an undefined number. For the other arguments see `draws` and `interval`.

  Args:
    rows: see `draws`.
    figures: see `draws`.
    resamples: see `draws`.
    confidence: see `interval`.
    seed: see `draws`.
    reflected: names of figures that cannot be negative and that are on average larger in a resample
      than in the set, such as a mean of distances. The function reflects their intervals about the
      value: the basic bootstrap, Davison and Hinkley, "Bootstrap Methods and their Application"
      (1997), 5.2.
  """
  values = figures_of_all(rows, figures)
  drawn = draws(rows, figures, resamples, seed)
  found = {}
  for name, value in values.items():
    low, high = interval(drawn[name], confidence)
    if name in reflected:
      low, high = np.maximum(2 * value - high, 0), 2 * value - low
    found[name] = _described(value, low, high)
  return found


def _described(value, low, high):
  if np.ndim(value):
    return [_described(*each) for each in zip(value, low, high, strict=True)]
  return {"value": number(value), "low": number(low), "high": number(high)}


def number(value: float) -> float | None:
  """Returns a number for JSON; None for NaN and infinities."""
  return float(value) if np.isfinite(value) else None


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
  """Returns part / whole; NaN where the whole is 0."""
  return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole != 0)
