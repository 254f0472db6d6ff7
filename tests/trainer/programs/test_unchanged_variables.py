"""A training that trains nothing is told; one that trains, or has nothing to train, is not."""

import inspect

import keras
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import EstimatorSpec
from trainer.cli import notices


def minimize(loss, w):
  return trainer.minimize(keras.optimizers.SGD(0.1), loss)


def accumulate(loss, w):
  return trainer.minimize(keras.optimizers.Adam(0.1), loss, accumulate_steps=3)


def by_hand(loss, w):
  return w.assign_sub(tf.gradients(loss, [w])[0])


def sometimes(loss, w):
  return tf.cond(loss > 1e9, lambda: w.assign_add([1.0] * 3) is None, lambda: False)


def nothing(loss, w):
  return tf.no_op()


def steps_alone(loss, w):
  return tf.compat.v1.train.get_global_step().assign_add(1)


def an_empty_list(loss, w):
  optimizer = keras.optimizers.SGD(0.1)
  optimizer.apply([], [])
  return optimizer.iterations


def model_fn(train_op_of, trainable=True):
  def some_model(features, labels, mode, params):
    w = tf.Variable(tf.zeros([3]), name="w", trainable=trainable)
    seen = tf.Variable(0.0, name="seen", trainable=False)  # changed by each, and not trained
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(features["x"], w) - labels))
    with tf.control_dependencies([seen.assign_add(1.0)]):
      return EstimatorSpec(mode, loss=loss, train_op=train_op_of(loss, w))

  return some_model


def warnings(caplog, monkeypatch, folder, *arguments, **settings):
  monkeypatch.setattr(notices, "_given", set())
  estimator = programs.estimator(folder, model_fn(*arguments), **settings)
  with caplog.at_level("WARNING", logger="absl"):
    estimator.trace("train", programs.train_input)
  return [record.getMessage() for record in caplog.records if "train_op" in record.getMessage()]


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
@pytest.mark.parametrize("train_op_of", [nothing, steps_alone, an_empty_list])
def test_a_train_op_that_trains_nothing_is_told_once(
  train_op_of, device, tmp_path, caplog, monkeypatch
):
  (said,) = warnings(caplog, monkeypatch, tmp_path, train_op_of, device=device)
  assert "changes none of the 1 trainable variables (w" in said
  # A variable has no place, nor has what is made between the replicas.
  if train_op_of is nothing or (train_op_of is steps_alone and device == "cpu"):
    _, first = inspect.getsourcelines(train_op_of)
    assert f"({__file__}:{first + 1})" in said


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
@pytest.mark.parametrize(
  "arguments",
  [(minimize,), (accumulate,), (by_hand,), (sometimes,), (nothing, False)],
  ids=lambda arguments: arguments[0].__name__,
)
def test_one_that_trains_is_not_and_frozen_models_are_meant(
  arguments, device, tmp_path, caplog, monkeypatch
):
  assert warnings(caplog, monkeypatch, tmp_path, *arguments, device=device) == []
