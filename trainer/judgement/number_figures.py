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


class Rows:
  """Each example's part of the sums behind the figures of a regression.

  Args:
    observed: the result of Observations.arrays.

  Attributes:
    matrix: scipy.sparse [examples, columns].
  """

  def __init__(self, observed: Mapping[str, np.ndarray]) -> None:
    from scipy import sparse

    label, predicted = observed["label"], observed["predicted"]
    is_finite = np.isfinite(predicted) & np.isfinite(label)
    label, error = label[is_finite], (predicted - label)[is_finite]
    # Subtract the labels' mean: a sum of squares of large numbers would lose digits.
    centred = label - (label.mean() if len(label) else 0)
    columns = [np.ones(len(label)), error, error**2, np.abs(error), centred, centred**2]
    matrix = np.zeros([len(is_finite), len(columns)])
    matrix[is_finite] = np.stack(columns, 1)
    self.matrix = sparse.csr_array(matrix)

  def figures(self, sums: np.ndarray) -> dict[str, np.ndarray]:
    """Returns name → [resamples] of the figures, for the sums [resamples, columns]."""
    share = bootstrap.share
    count, error, squared, absolute, label, squared_label = sums.T
    variance = squared_label - share(label**2, count)
    return {
      "mae": share(absolute, count),
      "rmse": np.sqrt(share(squared, count)),
      "bias": share(error, count),
      "r2": 1 - share(squared, variance),
    }


def describe(
  observed: Mapping[str, np.ndarray], resamples: int, confidence: float, seed: int
) -> dict[str, Any]:
  """Returns the figures for JSON, see `reporting.evaluation_reports`."""
  rows = Rows(observed)
  label, predicted = observed["label"], observed["predicted"]
  is_finite = np.isfinite(predicted) & np.isfinite(label)
  lost = int((~is_finite).sum())
  notes = (
    [
      f"{lost:,} of {len(label):,} predictions or labels are NaN or infinite: the report leaves "
      "them out."
    ]
    if lost
    else []
  )
  return {
    "metrics": bootstrap.estimates(rows.matrix, rows.figures, resamples, confidence, seed),
    "residuals": _residuals(predicted[is_finite], (predicted - label)[is_finite]),
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
