"""Assignments that nothing fetches are told with their lines; what is fetched or Keras's is not."""

import inspect
import itertools

import keras
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer.cli import notices

v1 = tf.compat.v1


def sgd(loss, rate=0.1):
  return v1.train.GradientDescentOptimizer(rate).minimize(loss)


def one_optimizer_of_two(loss, w):
  made = sgd(loss, 0.2)
  del made
  return sgd(loss)


def one_minimize_of_two(loss, w):
  trainer.minimize(keras.optimizers.SGD(0.2), loss)
  return trainer.minimize(keras.optimizers.SGD(0.1), loss)


def a_reset(loss, w):
  w.assign(tf.zeros([3]))
  return sgd(loss)


def a_reset_of_a_keras_variable(loss, w):
  keras.Variable(0.0, trainable=False, name="seen").assign(1.0)
  return sgd(loss)


def in_a_group(loss, w):
  with tf.control_dependencies([sgd(loss)]):
    return w.assign_sub(tf.ones([3]))


def with_moving_averages(loss, w):
  return trainer.minimize(keras.optimizers.SGD(0.1), loss, ema_decay=0.9)


def accumulated(loss, w):
  return trainer.minimize(keras.optimizers.SGD(0.1), loss, accumulate_steps=2)


def by_keras(loss, w):
  optimizer = keras.optimizers.SGD(0.1)
  optimizer.apply(tf.gradients(loss, [w]), [w])
  return optimizer.iterations


FETCHED = [in_a_group, with_moving_averages, accumulated, by_keras]


def in_a_branch(loss, w):
  """Works on one core only: replicas cannot meet in a branch."""
  return tf.cond(loss > 1e9, lambda: w.assign_add([1.0] * 3) is None, lambda: False)


class Counts(keras.layers.Layer):
  """A layer with state of its own."""

  def build(self, shape):
    self.seen = self.add_weight(shape=(), trainable=False, name="seen")
    self.also = tf.Variable(0.0, trainable=False, name="also")

  def call(self, inputs):
    self.seen.assign_add(1.0)
    self.also.assign_add(1.0)
    return inputs


def told(caplog, monkeypatch, folder, train_op_of, device):
  def some_model(features, labels, mode, params):
    w = tf.Variable(tf.zeros([3]), name="w", aggregation=tf.VariableAggregation.MEAN)
    x = keras.layers.BatchNormalization()(Counts()(features["x"]), training=True)
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - labels))
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op_of(loss, w))

  monkeypatch.setattr(notices, "_given", set())
  with caplog.at_level("WARNING", logger="absl"):
    programs.estimator(folder, some_model, device=device).trace("train", programs.train_input)
  return [line for line in caplog.messages if "nothing fetches it" in line]


@pytest.mark.parametrize("device", long.except_for(["cpu:2"], ["cpu", "cpu:2"]))
@pytest.mark.parametrize(
  "train_op_of", [one_optimizer_of_two, one_minimize_of_two, a_reset, a_reset_of_a_keras_variable]
)
def test_what_nothing_fetches_is_told_with_its_line(
  train_op_of, device, tmp_path, caplog, monkeypatch
):
  (line,) = told(caplog, monkeypatch, tmp_path, train_op_of, device)
  _, first = inspect.getsourcelines(train_op_of)
  expected = inspect.getsourcelines(sgd)[1] if train_op_of is one_optimizer_of_two else first
  assert f"({__file__}:{expected + 1})" in line


@pytest.mark.parametrize(
  "train_op_of, device",
  long.except_for(
    [*itertools.product(FETCHED, ["cpu:2"]), (in_a_branch, "cpu")],
    [*itertools.product(FETCHED, ["cpu", "cpu:2"]), (in_a_branch, "cpu")],
  ),
)
def test_what_is_fetched_and_what_keras_does_is_not(
  train_op_of, device, tmp_path, caplog, monkeypatch
):
  assert told(caplog, monkeypatch, tmp_path, train_op_of, device) == []
