"""Metrics in the result of an evaluation."""

import numpy as np
import pytest

from trainer import errors
from trainer.reporting import metric_values

RESULT = {
  "loss": 0.5,
  "accuracy": np.float32(0.25),
  "recall": np.array([1.0, 0.5]),
  "global_step": 3,
}


def test_scalars_are_pythons_numbers_without_arrays():
  found = metric_values.scalars(RESULT)
  assert found == {"loss": 0.5, "accuracy": 0.25, "global_step": 3}
  assert type(found["accuracy"]) is float
  assert metric_values.scalar(RESULT, "accuracy", "Retention.metric") == 0.25


@pytest.mark.parametrize("metric", ["recall", "f1"])
def test_a_missing_metric_is_refused_with_the_present_ones(metric):
  said = f"^Retention.metric is '{metric}'; the evaluation gives accuracy, loss\\.$"
  with pytest.raises(errors.SettingError, match=said):
    metric_values.scalar(RESULT, metric, "Retention.metric")
