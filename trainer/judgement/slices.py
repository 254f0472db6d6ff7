"""Figures of parts of the evaluation set: a value or a range of a feature selects a part."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer.judgement import bootstrap
from trainer.reporting.evaluation_reports import NUMBERS

_MOST = 20  # Parts of a feature; one value selects each.
_RANGES = 4  # Parts of a feature of numbers with more values than that.


def describe(
  kind: str,
  observed: Mapping[str, np.ndarray],
  features: Mapping[str, Sequence[Any]],
  resamples: int,
  confidence: float,
  seed: int,
) -> dict[str, list[dict[str, Any]]]:
  """Returns feature → its parts, each with its value, its number of examples and its metric.

  The metric is the accuracy of a classifier, and the mean absolute error of a regression.
  """
  if kind == NUMBERS:
    metric, values = "mae", np.abs(observed["predicted"] - observed["label"])
  else:
    metric, values = "accuracy", (observed["label"] == observed["predicted"]).astype(np.float64)
  counts = np.isfinite(values)
  return {
    name: [
      {"value": text, "examples": int(places.sum()), metric: estimate}
      for (text, places), estimate in _estimated(
        _parts(of_examples), np.nan_to_num(values), counts, resamples, confidence, seed
      )
    ]
    for name, of_examples in features.items()
  }


def _estimated(parts, values, counts, resamples, confidence, seed):
  """Returns (part, estimate of the mean of its values) of each part."""
  columns = np.stack([places & counts for _, places in parts], 1).astype(np.float64)

  def means(times):
    return {"mean": bootstrap.share((times * values) @ columns, times @ columns)}

  found = bootstrap.estimates(means, len(values), resamples, confidence, seed)["mean"]
  return list(zip(parts, found, strict=True))


def _parts(values):
  """Returns (text, bool [examples]) of each part of a feature's values."""
  if all(isinstance(value, bool | int | float | None) for value in values):
    array = np.array([np.nan if value is None else value for value in values])
  else:
    texts = ["missing" if value is None else _decoded(value) for value in values]
    array = np.array(texts)
  unique, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
  if len(unique) > _MOST and array.dtype.kind in "fiu":
    return _ranges(array.astype(np.float64))
  # The most frequent values each select a part, in the order of the values.
  kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST])
  parts = [(_text(unique[place]), inverse == place) for place in kept]
  others = ~np.isin(inverse, kept)
  if others.any():
    parts.append((f"{len(unique) - len(kept):,} other values", others))
  return parts


def _decoded(value):
  return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _ranges(array):
  is_number = ~np.isnan(array)
  edges = np.unique(np.quantile(array[is_number], np.linspace(0, 1, _RANGES + 1)))
  parts = []
  for index, (low, high) in enumerate(itertools.pairwise(edges)):
    above = array >= low if index == 0 else array > low
    parts.append((f"{low:.5g} to {high:.5g}", is_number & above & (array <= high)))
  if not is_number.all():
    parts.append(("missing", ~is_number))
  return parts


def _text(value):
  if isinstance(value, np.floating):
    return "missing" if np.isnan(value) else f"{value:.5g}"
  return str(value)
