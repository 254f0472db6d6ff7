"""The figures of a regression: against scikit-learn, and where they are not defined."""

import numpy as np
import pytest
from sklearn import metrics

from tests.trainer.judgement import observed
from trainer.judgement import number_figures


def describe(arrays):
  return number_figures.describe(arrays, resamples=50, confidence=0.95, seed=1)


def test_figures_are_those_of_scikit_learn():
  arrays = observed.numbers()
  label, predicted = arrays["label"], arrays["predicted"]
  found = {name: each["value"] for name, each in describe(arrays)["metrics"].items()}
  assert found == {
    "mae": pytest.approx(metrics.mean_absolute_error(label, predicted)),
    "rmse": pytest.approx(metrics.root_mean_squared_error(label, predicted)),
    "bias": pytest.approx(np.mean(predicted - label)),
    "r2": pytest.approx(metrics.r2_score(label, predicted)),
  }


def test_residuals_count_every_example():
  found = describe(observed.numbers(105))["residuals"]
  assert sum(found["counts"]) == 105
  assert sum(part["examples"] for part in found["parts"]) == 105
  assert len(found["edges"]) == len(found["counts"]) + 1


def test_nan_predictions_are_left_out_and_told():
  arrays = observed.numbers(50)
  arrays["predicted"][:5] = np.nan
  found = describe(arrays)
  rest = np.abs(arrays["predicted"] - arrays["label"])[5:].mean()
  assert found["metrics"]["mae"]["value"] == pytest.approx(rest)
  assert found["notes"] == [
    "5 of 50 predictions or labels are NaN or infinite: the report leaves them out."
  ]
  arrays["predicted"][:] = np.nan
  assert describe(arrays)["metrics"]["mae"] == dict(value=None, low=None, high=None)
  assert describe(arrays)["residuals"] is None
