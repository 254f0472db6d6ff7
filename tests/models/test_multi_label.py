"""Several labels an example: a yes-or-no question for each class."""

import functools

import keras
import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf

import trainer
from models import multi_label, tabular_mlp
from trainer import errors, testing

RANDOM = np.random.RandomState(1)
LOGITS = (RANDOM.randn(40, 3) * 2).astype(np.float32)
LABELS = (LOGITS + RANDOM.randn(40, 3) > 0.5).astype(np.int32)
WEIGHTS = RANDOM.rand(40).astype(np.float32)


def spec(mode, labels=LABELS, **settings):
  labels = None if labels is None else tf.constant(labels)
  return multi_label.spec(mode, tf.constant(LOGITS), labels, keras.optimizers.SGD, **settings)


def test_predictions_are_independent():
  found = spec(trainer.ModeKeys.PREDICT, None).predictions
  np.testing.assert_allclose(found["probabilities"], 1 / (1 + np.exp(-LOGITS)), rtol=1e-5)
  np.testing.assert_array_equal(found["present"], LOGITS >= 0)
  assert found["present"].dtype == tf.int32


@pytest.mark.parametrize("weights", [None, WEIGHTS, RANDOM.rand(40, 3).astype(np.float32)])
def test_the_loss_is_the_mean_over_all_answers(weights):
  of_each = np.logaddexp(0, LOGITS) - LABELS * LOGITS
  counted = of_each if weights is None else of_each * weights.reshape(40, -1)
  given = None if weights is None else tf.constant(weights)
  found = spec(trainer.ModeKeys.EVAL, sample_weight=given, label_smoothing=0.3)
  np.testing.assert_allclose(found.loss, counted.mean(), rtol=1e-5)


def test_metrics_are_those_of_scikit_learn():
  metric_fn, tensors = spec(trainer.ModeKeys.EVAL).eval_metrics
  found = {name: float(metric.result()) for name, metric in metric_fn(**tensors).items()}
  labels, present = LABELS.ravel(), LOGITS.ravel() >= 0
  assert found.pop("auc") == pytest.approx(
    sklearn.metrics.roc_auc_score(labels, LOGITS.ravel()), abs=0.01
  )  # Keras's has 200 thresholds
  assert found == pytest.approx(
    {
      "binary_accuracy": sklearn.metrics.accuracy_score(labels, present),
      "precision": sklearn.metrics.precision_score(labels, present),
      "recall": sklearn.metrics.recall_score(labels, present),
    }
  )


def test_smoothing_is_in_the_loss_of_a_training(monkeypatch):
  monkeypatch.setattr(trainer, "minimize", lambda optimizer, loss: "minimized")
  found = spec(trainer.ModeKeys.TRAIN, label_smoothing=0.2, penalties=[tf.constant(3.0)])
  expected = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.2)(LABELS, LOGITS)
  np.testing.assert_allclose(found.loss, expected + 3.0, rtol=1e-5)


def test_each_class_is_learnt_by_itself():
  numbers = RANDOM.randn(64, 2).astype(np.float32)
  labels = (numbers[:, [0, 1, 0]] > [0.0, 0.3, 5.0]).astype(np.int32)

  def input_fn(params):
    dataset = tf.data.Dataset.from_tensor_slices(({"numbers": numbers}, labels))
    return dataset.repeat().batch(params["batch_size"], drop_remainder=True)

  model_fn = functools.partial(
    tabular_mlp.model_fn, classes=3, task=multi_label.spec, hidden_units=(16,), dropout=0.0
  )
  testing.assert_learns(model_fn, input_fn, steps=600, below=0.25)


@pytest.mark.parametrize(
  "settings, error, message",
  [
    ({"label_smoothing": 1.0}, errors.SettingError, "less than 1; got 1.0"),
    ({"labels": LABELS[:, 0]}, errors.ModelFnError, r"shape \(40,\), and the logits \(40, 3\)"),
  ],
)
def test_what_does_not_fit_is_said(settings, error, message):
  with pytest.raises(error, match=message):
    spec(trainer.ModeKeys.EVAL, **settings)
