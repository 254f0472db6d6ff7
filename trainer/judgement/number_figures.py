"""Figures of a regression: how large the errors are, and where.

An error is the prediction less the label. Definitions as in scikit-learn: mae is the mean of its
absolute value, rmse the root of the mean of its square, r2 the share of the labels' variance that
the predictions explain; bias is the mean of the error itself.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer.judgement import bootstrap

_BARS = 30  # Of the histogram.
_PARTS = 10  # Parts of the set, by the size of the prediction.
_OUTSIDE = 0.05  # The share of a part's errors on each side of the drawn range.


class Figures:
  """Computes the figures of a regression, see `bootstrap.Figures`.

  Args:
    observed: the result of Observations.arrays.
  """

  def __init__(self, observed: Mapping[str, np.ndarray]) -> None:
    label, predicted = observed["label"], observed["predicted"]
    self.is_finite = np.isfinite(predicted) & np.isfinite(label)
    self.predicted = predicted[self.is_finite]
    self.error = self.predicted - label[self.is_finite]
    self._label = label[self.is_finite]

  def __call__(self, times: np.ndarray) -> dict[str, np.ndarray]:
    """Returns name → figure, for how often each example counts."""
    times = times[self.is_finite]

    def mean(values):
      return bootstrap.share((times * values).sum(), times.sum())

    squared = mean(self.error**2)
    return {
      "mae": mean(np.abs(self.error)),
      "rmse": np.sqrt(squared),
      "bias": mean(self.error),
      "r2": 1 - bootstrap.share(squared, mean((self._label - mean(self._label)) ** 2)),
    }


def describe(
  observed: Mapping[str, np.ndarray], resamples: int, confidence: float, seed: int
) -> dict[str, Any]:
  """Returns the figures for JSON, see `reporting.evaluation_reports`."""
  figures, examples = Figures(observed), len(observed["label"])
  notes = []
  if lost := int((~figures.is_finite).sum()):
    notes.append(
      f"{lost:,} of {examples:,} predictions or labels are NaN or infinite: the report leaves them "
      "out."
    )
  return {
    "metrics": bootstrap.estimates(figures, examples, resamples, confidence, seed),
    "residuals": _residuals(figures.predicted, figures.error),
    "notes": notes,
  }


def _residuals(predicted, error):
  """Returns a histogram of the errors, and their quantiles in each part of the set."""
  if not len(error):
    return None
  counts, edges = np.histogram(error, _BARS)
  parts = []
  for places in np.array_split(np.argsort(predicted, kind="stable"), min(_PARTS, len(error))):
    low, middle, high = np.quantile(error[places], [_OUTSIDE, 0.5, 1 - _OUTSIDE])
    parts.append(
      {
        "examples": len(places),
        "predicted": float(predicted[places].mean()),
        "low": float(low),
        "median": float(middle),
        "high": float(high),
      }
    )
  return {"edges": edges.tolist(), "counts": counts.tolist(), "parts": parts}
