"""Keras's metrics of vectors, of scalars and of very many examples, in a metric_fn."""

import keras
import numpy as np
import pytest

from tests.trainer.programs import test_host_metrics
from trainer.programs import exact_metrics

COUNT, SIZES = 40, (7, 2, 31)
LARGE = exact_metrics.LARGEST_COUNT
# The metrics that take the mean over the last axis, and two that count each place.
OF_VECTORS = (
  "Accuracy",
  "BinaryCrossentropy",
  "Hinge",
  "LogCoshError",
  "MeanAbsoluteError",
  "MeanAbsolutePercentageError",
  "MeanSquaredError",
  "MeanSquaredLogarithmicError",
  "Poisson",
  "RootMeanSquaredError",
  "SquaredHinge",
)


def arrays():
  return np.random.RandomState(5).uniform(0.1, 1, [3, COUNT]).astype(np.float32)


def results(metric_fn, *arrays, sizes=SIZES):
  """The metrics after batches of these sizes."""
  return test_host_metrics.update(metric_fn, *test_host_metrics.batches_of(*arrays, sizes=sizes))[0]


@pytest.mark.parametrize("kind", OF_VECTORS)
def test_a_vector_has_a_value_for_each_example(kind):
  def metric_fn(labels, values, weights):
    plain, weighted = (getattr(keras.metrics, kind)() for _ in range(2))
    plain.update_state(labels, values)
    weighted.update_state(labels, values, weights)
    return {"plain": plain, "weighted": weighted}

  labels, values, weights = arrays()
  found = results(metric_fn, labels, values, weights)
  for name, of_examples in ({"plain": None, "weighted": weights}).items():
    metric = getattr(keras.metrics, kind)(dtype="float64")
    metric.update_state(labels[:, None], values[:, None], of_examples)
    assert found[name] == pytest.approx(float(metric.result()), rel=1e-6)


def test_a_mask_of_a_vector_leaves_examples_out():
  def metric_fn(labels, values, weights):
    values._keras_mask = weights > 0.5
    error = keras.metrics.MeanAbsoluteError()
    error.update_state(labels, values)
    return {"error": error}

  labels, values, weights = arrays()
  wanted = np.abs(labels - values)[weights > 0.5].mean()
  assert results(metric_fn, labels, values, weights)["error"] == pytest.approx(wanted, rel=1e-6)


def test_the_mean_of_a_batch_counts_for_each_example():
  def metric_fn(values):
    mean = keras.metrics.Mean()
    mean.update_state(keras.ops.mean(values))
    return {"mean": mean}

  values, *_ = arrays()
  assert results(metric_fn, values)["mean"] == pytest.approx(values.mean(), rel=1e-6)


def test_a_threshold_is_that_of_float32():
  def metric_fn(labels, values):
    made = [
      keras.metrics.Precision(thresholds=0.3),
      keras.metrics.F1Score("micro", threshold=0.3),
      keras.metrics.AUC(thresholds=[0.3]),
    ]
    for metric in made:
      metric.update_state(labels, values)
    return {metric.name: metric for metric in made[:2]}

  labels, values = np.float32([[1], [0], [0]]), np.float32([[0.5], [0.3], [0.1]])
  found = results(metric_fn, labels, values, sizes=(2, 1))
  assert found == pytest.approx({"precision": 1, "f1_score": 1}, rel=1e-6)


# 2^24 + 1 is the first integer that float32 lacks.
COUNTED = {
  "TrueNegatives": LARGE + 1,
  "FalseNegatives": 1,
  "Sum": LARGE + 2,
  "Mean": 1 / (LARGE + 2),
  "Accuracy": (LARGE + 1) / (LARGE + 2),
  "MeanIoU": (LARGE + 1) / (LARGE + 2) / 2,
}


@pytest.mark.parametrize("kind", COUNTED)
def test_counts_beyond_2_to_the_24_are_exact(kind):
  is_mean = kind in ("Mean", "Sum")

  def metric_fn(labels, classes, weights):
    metric = getattr(keras.metrics, kind)(*([2] if kind == "MeanIoU" else []))
    values = [labels if kind == "Mean" else 1 - 0 * labels] if is_mean else [labels, classes]
    metric.update_state(*values, weights)
    return {"metric": metric}

  labels, classes = np.float32([0, 0, 1]), np.float32([0, 0, 0])
  weights = np.float32([LARGE, 1, 1])
  for sizes in ((3,), (1, 1, 1)):
    found = results(metric_fn, labels, classes, weights, sizes=sizes)
    # A float, since numpy would round the expected value to the metric's float32.
    assert float(found["metric"]) == pytest.approx(COUNTED[kind], rel=1e-12)
