"""Regressions: the loss is of normalised targets, and all that is shown has the labels' unit."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from models import regression, tabular_mlp
from trainer import errors, testing

RANDOM = np.random.RandomState(0)
OUTPUTS = RANDOM.randn(5, 2).astype(np.float32)
STATISTICS = ((100.0, -2.0), (10.0, 0.5))
VALUES = OUTPUTS * [10.0, 0.5] + [100.0, -2.0]
LABELS = (VALUES + RANDOM.randn(5, 2) * [20.0, 1.0]).astype(np.float32)
WEIGHTS = np.array([1, 0, 2, 3, 0.5], np.float32)


def spec(mode, outputs=OUTPUTS, labels=LABELS, statistics=STATISTICS, **settings):
  labels = None if labels is None else tf.constant(labels)
  return regression.spec(
    mode, tf.constant(outputs), labels, keras.optimizers.SGD, statistics=statistics, **settings
  )


def test_predictions_have_the_unit_of_the_labels():
  (name, values), *others = spec(trainer.ModeKeys.PREDICT, labels=None).predictions.items()
  assert (name, others) == ("value", [])
  np.testing.assert_allclose(values, VALUES, rtol=1e-6)
  one = spec(trainer.ModeKeys.PREDICT, OUTPUTS[:, :1], None, ((100.0,), (10.0,)))
  np.testing.assert_allclose(one.predictions["value"], VALUES[:, 0], rtol=1e-6)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_loss_is_of_normalised_targets_and_metrics_are_not(weights):
  given = None if weights is None else tf.constant(weights)
  found = spec(trainer.ModeKeys.EVAL, sample_weight=given)
  of_each = ((VALUES - LABELS) / [10.0, 0.5]) ** 2
  counted = of_each if weights is None else of_each * weights[:, np.newaxis]
  np.testing.assert_allclose(found.loss, counted.mean(), rtol=1e-5)

  metric_fn, tensors = found.eval_metrics
  metrics = {name: float(metric.result()) for name, metric in metric_fn(**tensors).items()}
  errors_of_all = np.abs(VALUES - LABELS)
  expected = {
    "mean_absolute_error": errors_of_all.mean(),
    "root_mean_squared_error": np.sqrt((errors_of_all**2).mean()),
  }
  if weights is not None:
    expected["weighted_mean_absolute_error"] = np.average(errors_of_all.mean(1), weights=weights)
  assert metrics == pytest.approx(expected, rel=1e-5)


def test_metrics_of_one_target_are_over_the_examples():
  found = spec(trainer.ModeKeys.EVAL, OUTPUTS[:, :1], LABELS[:, 0], ((100.0,), (10.0,)))
  metric_fn, tensors = found.eval_metrics
  metrics = metric_fn(**tensors, sample_weight=tf.constant(WEIGHTS))
  errors_of_all = np.abs(VALUES - LABELS)[:, 0]
  np.testing.assert_allclose(
    metrics["weighted_mean_absolute_error"].result(),
    np.average(errors_of_all, weights=WEIGHTS),
    rtol=1e-5,
  )


def test_large_targets_are_learnt_as_fast_as_small_ones():
  """What normalising is for: prices, with an optimizer that never heard of them."""
  numbers = RANDOM.randn(64, 3).astype(np.float32)
  prices = (2e5 + 5e4 * numbers[:, 0] - 3e4 * numbers[:, 2]).astype(np.float32)

  def input_fn(params):
    dataset = tf.data.Dataset.from_tensor_slices(({"numbers": numbers}, prices))
    return dataset.repeat().batch(params["batch_size"], drop_remainder=True)

  statistics = (float(prices.mean()),), (float(prices.std()),)
  task = functools.partial(regression.spec, statistics=statistics)
  model_fn = functools.partial(
    tabular_mlp.model_fn, classes=1, task=task, hidden_units=(16,), dropout=0.0
  )
  testing.assert_learns(model_fn, input_fn, steps=400, below=0.1)


@pytest.mark.parametrize(
  "settings, error, message",
  [
    ({"label_smoothing": 0.1}, errors.SettingError, "no classes to smooth"),
    ({"statistics": ((1.0,), (2.0,))}, errors.SettingError, "of 1 targets.*has 2 outputs"),
    ({"labels": LABELS[:, 0]}, errors.ModelFnError, r"labels have the shape \(5,\).*\(5, 2\)"),
  ],
)
def test_what_does_not_fit_is_said(settings, error, message):
  with pytest.raises(error, match=message):
    spec(trainer.ModeKeys.EVAL, **settings)
