"""The losses of classifiers are what Keras computes; smoothing changes what is trained on, not
what is evaluated.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from models import (
  cifar10_cnn,
  classification,
  digits_mlp,
  fashion_mnist_cnn,
  tabular_mlp,
  transformer_classifier,
)
from trainer import errors

LOGITS = tf.constant(np.random.RandomState(0).randn(5, 4) * 3, tf.float32)
LABELS = tf.constant([0, 3, 1, 1, 2])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_smoothed_cross_entropy_is_that_of_keras(smoothing):
  expected = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing)(
    tf.one_hot(LABELS, 4), LOGITS
  )
  np.testing.assert_allclose(
    tf.reduce_mean(classification._smoothed_cross_entropy(LABELS, LOGITS, smoothing)),
    expected,
    rtol=1e-5,
  )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_probabilities_of_classes_are_labels_too(smoothing):
  mixed = 0.7 * tf.one_hot(LABELS, 4) + 0.3 * tf.one_hot(LABELS[::-1], 4)
  expected = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing)(
    mixed, LOGITS
  )
  np.testing.assert_allclose(
    tf.reduce_mean(classification._smoothed_cross_entropy(mixed, LOGITS, smoothing)),
    expected,
    rtol=1e-5,
  )


@pytest.mark.parametrize("labels", [tf.cast(LABELS, tf.float32), tf.zeros([5, 3])])
def test_floats_that_are_no_probabilities_of_the_classes(labels):
  with pytest.raises(errors.ModelFnError, match=r"logits \(5, 4\): .*augment.mix.classes"):
    classification.spec(trainer.ModeKeys.TRAIN, LOGITS, labels, keras.optimizers.SGD)


def test_evaluation_is_without_smoothing_and_penalties():
  spec = classification.spec(
    trainer.ModeKeys.EVAL,
    LOGITS,
    LABELS,
    keras.optimizers.SGD,
    label_smoothing=0.3,
    penalties=[tf.constant(7.0)],
  )
  np.testing.assert_allclose(
    spec.loss,
    keras.losses.SparseCategoricalCrossentropy(from_logits=True)(LABELS, LOGITS),
    rtol=1e-5,
  )
  assert spec.train_op is None


def test_smoothing_and_penalties_are_trained_on(tmp_path):
  seen = []

  def model_fn(features, labels, mode, params):
    bias = tf.Variable(tf.zeros([4]), name="bias")
    spec = classification.spec(
      mode, features + bias, labels, lambda: keras.optimizers.SGD(0.0), 0.3, [tf.constant(7.0)]
    )
    tf.summary.scalar("loss", spec.loss)
    return spec

  def input_fn(params):
    return (
      tf.data.Dataset.from_tensor_slices((LOGITS, LABELS))
      .repeat()
      .batch(params["batch_size"], drop_remainder=True)
    )

  config = trainer.RunConfig(device="cpu", save_summary_steps=1, log_step_count_steps=1)
  estimator = trainer.Estimator(model_fn, str(tmp_path), config, train_batch_size=5)
  estimator.train(input_fn, max_steps=1, hooks=[lambda step, metrics, runner: seen.append(metrics)])
  expected = 7.0 + float(
    keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.3)(
      tf.one_hot(LABELS, 4), LOGITS
    )
  )
  assert float(seen[-1]["loss"]) == pytest.approx(expected, rel=1e-5)


def test_bfloat16_logits_are_judged_in_float32():
  spec = classification.spec(
    trainer.ModeKeys.PREDICT, tf.cast(LOGITS, tf.bfloat16), None, keras.optimizers.SGD
  )
  assert {name: tensor.dtype for name, tensor in spec.predictions.items()} == {
    "class": tf.int32,
    "probabilities": tf.float32,
    "logits": tf.float32,
  }


def test_smoothing_out_of_range_is_named():
  with pytest.raises(errors.SettingError, match=r"label_smoothing .* got 1.0"):
    classification.spec(
      trainer.ModeKeys.EVAL, LOGITS, LABELS, keras.optimizers.SGD, label_smoothing=1.0
    )


WEIGHTS = tf.constant([0.5, 0.0, 2.0, 1.0, 4.0])


def test_weighted_losses_and_metrics_are_those_of_keras():
  spec = classification.spec(
    trainer.ModeKeys.EVAL, LOGITS, LABELS, keras.optimizers.SGD, sample_weight=WEIGHTS
  )
  expected = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  np.testing.assert_allclose(spec.loss, expected(LABELS, LOGITS, WEIGHTS), rtol=1e-5)
  metric_fn, tensors = spec.eval_metrics
  accuracy = keras.metrics.SparseCategoricalAccuracy()
  accuracy.update_state(LABELS, LOGITS, WEIGHTS)
  metrics = metric_fn(**tensors)
  assert float(metrics["weighted_accuracy"].result()) == float(accuracy.result())
  assert float(metrics["accuracy"].result()) == float(
    metric_fn(LABELS, LOGITS)["accuracy"].result()
  )


def test_a_weight_of_an_example_is_that_of_all_its_labels():
  labels, logits = tf.stack([LABELS, LABELS[::-1]], 1), tf.stack([LOGITS, LOGITS[::-1]], 1)
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  spec = classification.spec(
    trainer.ModeKeys.EVAL, logits, labels, keras.optimizers.SGD, sample_weight=WEIGHTS
  )
  np.testing.assert_allclose(spec.loss, np.mean(losses * WEIGHTS[:, None]), rtol=1e-6)
  assert float(spec.eval_metrics[0](**spec.eval_metrics[1])["weighted_accuracy"].result()) >= 0


@pytest.mark.parametrize(
  "model_fn, feature, shape",
  [
    (functools.partial(cifar10_cnn.model_fn, filters=(2, 2), units=4), "image", [8, 8, 1]),
    (digits_mlp.model_fn, "image", [8, 8, 1]),
    (functools.partial(fashion_mnist_cnn.model_fn, filters=(2,), units=4), "image", [8, 8, 1]),
    (functools.partial(tabular_mlp.model_fn, classes=10), "numbers", [5]),
    (
      functools.partial(
        transformer_classifier.model_fn, classes=10, vocabulary_size=3, layers=1, units=4, heads=1
      ),
      "tokens",
      [6],
    ),
  ],
)
def test_every_classifier_weights_its_examples(model_fn, feature, shape):
  """Octet passes weights by this name, see tests/trainer/inputs/test_weights.py."""
  features = np.random.RandomState(0).rand(2, *shape)
  features = {feature: tf.constant(features, tf.int32 if feature == "tokens" else tf.float32)}
  labels = tf.constant([1, 3])

  def loss(weights):
    keras.utils.set_random_seed(1)  # the same values of the variables in both calls
    mode = trainer.ModeKeys.EVAL
    return float(model_fn(features, labels, mode, {}, sample_weight=tf.constant(weights)).loss)

  assert loss([0.0, 0.0]) == 0.0
  assert loss([2.0, 0.0]) + loss([0.0, 2.0]) == pytest.approx(2 * loss([1.0, 1.0]), rel=1e-5)
