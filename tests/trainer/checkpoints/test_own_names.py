"""A model's own variables are told from its training's by their names."""

import keras
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer.checkpoints import own_names

v1 = tf.compat.v1


def of_training(model_dir, optimizer):
  """The model's own names, and all names, after a step with an optimizer."""

  def model_fn(features, labels, mode, params):
    x = keras.layers.BatchNormalization()(keras.layers.Dense(2)(features["x"]), training=True)
    bias = v1.get_variable("bias", [2], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(x + bias, -1) - labels))
    return trainer.EstimatorSpec(mode, loss=loss, predictions=x, train_op=optimizer(loss))

  variables = programs.estimator(model_dir, model_fn).train(programs.train_input, steps=2).variables
  return own_names.model_names(variables), set(variables)


OWN = {
  "dense/kernel",
  "dense/bias",
  "bias",
  *(f"batch_normalization/{name}" for name in ("gamma", "beta", "moving_mean", "moving_variance")),
}


@pytest.mark.parametrize(
  "optimizer",
  [
    lambda loss: trainer.minimize(
      keras.optimizers.Adam(name="mine"), loss, ema_decay=0.9, accumulate_steps=2
    ),
    lambda loss: trainer.minimize(v1.train.AdamOptimizer(), loss, ema_decay=0.9),
    lambda loss: v1.train.RMSPropOptimizer(0.1, momentum=0.9).minimize(loss),
  ],
  ids=["keras", "adam", "rmsprop"],
)
def test_the_models_own_are_told_from_the_optimizers(optimizer, tmp_path):
  own, names = of_training(tmp_path, optimizer)
  assert own == OWN
  assert len(names - own) > len(OWN) // 2
  assert own_names.own_names(names, names) == OWN  # as where only a checkpoint's names are known


def test_the_sums_of_metrics_are_no_weights():
  assert own_names.own_names(
    ["loss/total", "loss/count", "visits/count", "dense/bias"], ["dense/bias"]
  ) == {"visits/count", "dense/bias"}


def test_keras_2_optimizer_variables_are_not_the_models_own():
  own = {"dense/kernel", "dense/bias", "rnn/decay", "rnn/kernel"}
  of_optimizers = {
    "training/Adam/decay",
    "training/Adam/learning_rate",
    "training/Adam/dense/kernel/m",
    "SGD/decay",
    "SGD/momentum",
    "mine/decay",
    "mine/dense/bias/accumulator",
  }
  assert own_names.own_names(own | of_optimizers, {"dense/kernel", "dense/bias"}) == own
