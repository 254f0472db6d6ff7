"""A loss that a model_fn divides by a number of one core's batch is told, with its line."""

import keras
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer.cli import notices

v1 = tf.compat.v1


def _errors(labels, y):
  return tf.square(y - labels)


def _by_a_count(labels, y):
  is_real = tf.cast(labels > 0.0, tf.float32)
  mean = tf.reduce_sum(_errors(labels, y) * is_real) / (tf.reduce_sum(is_real) + 1e-6)
  return 0.5 * mean + tf.reduce_mean(y)


def _without_nan(labels, y):
  return keras.ops.divide_no_nan(keras.ops.sum(y), keras.ops.sum(labels))


def _of_v1_with_weights(labels, y):
  return v1.losses.mean_squared_error(labels, y, weights=tf.cast(labels > 0.0, tf.float32))


def _of_v1(labels, y):
  return v1.losses.mean_squared_error(labels, y)


def _by_its_size(labels, y):
  return tf.reduce_sum(_errors(labels, y)) / tf.cast(tf.shape(y)[0], tf.float32) / 2.0


def _global(labels, y):
  return 2.0 * trainer.global_mean(_errors(labels, y), labels > 0.0) + tf.reduce_mean(y / labels)


DIVIDED = [_by_a_count, _without_nan, _of_v1_with_weights]
OTHERS = [_of_v1, _by_its_size, _global]


def warned(tmp_path, caplog, monkeypatch, loss_of, kind, device="cpu", **settings):
  def model_fn(features, labels, mode, params):
    w = tf.Variable([[1.0], [1.0], [1.0]], name="w")
    loss = loss_of(labels, tf.squeeze(features["x"] @ w, -1))
    train_op = trainer.minimize(keras.optimizers.SGD(0.1), loss, **settings)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  monkeypatch.setattr(notices, "_given", set())
  estimator = programs.estimator(tmp_path, model_fn, device=device)
  with caplog.at_level("WARNING", logger="absl"):
    estimator.trace(kind, programs.train_input)
  return "a number of a core's batch" in caplog.text and f"({__file__}:" in caplog.text


@pytest.mark.parametrize("loss_of", DIVIDED + OTHERS)
def test_an_evaluation_tells(tmp_path, caplog, monkeypatch, loss_of):
  found = warned(tmp_path, caplog, monkeypatch, loss_of, "eval")
  assert found == (loss_of in DIVIDED)


@pytest.mark.parametrize(
  "device, settings, expected",
  [("cpu", {}, False), ("cpu", {"accumulate_steps": 2}, True), ("cpu:2", {}, True)],
)
def test_a_training_tells_where_it_joins(tmp_path, caplog, monkeypatch, device, settings, expected):
  assert warned(tmp_path, caplog, monkeypatch, _by_a_count, "train", device, **settings) == expected
