"""xla.replica_id() of TensorFlow's TPU programs is the number of the replica on every device."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

import trainer
from tests.trainer import programs

IDS = {
  "at the top": lambda x: xla.replica_id(),
  "in a branch": lambda x: tf.cond(x > -1e9, xla.replica_id, lambda: tf.constant(-1)),
  "in a loop": lambda x: tf.while_loop(
    lambda done, found: done < 1,
    lambda done, found: (done + 1, found + xla.replica_id()),
    [tf.constant(0), tf.constant(0)],
  )[1],
  "in a function": lambda x: tf.function(xla.replica_id)(),
  "in a function that XLA compiles": lambda x: tf.function(xla.replica_id, jit_compile=True)(),
}


def model_fn(features, labels, mode, params):
  w = tf.Variable(0.0, name="w")
  ids = [tf.cast(make(features["x"][0, 0]), tf.float32) for make in IDS.values()]
  rows = tf.shape(features["x"])[0]
  predictions = {"ids": tf.ones([rows, 1]) * (w + tf.stack(ids))}
  if mode == trainer.ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions=predictions)
  loss = tf.reduce_sum(predictions["ids"])
  optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.0)
  return trainer.EstimatorSpec(mode, loss=loss, train_op=trainer.minimize(optimizer, loss))


@pytest.mark.parametrize("device", ["cpu", "cpu:2", "xla:2"])
def test_it_is_the_replicas_number_wherever_it_is_asked_for(device, tmp_path):
  seen = []
  estimator = programs.estimator(tmp_path, model_fn, device, batch_size=4)
  estimator.train(
    programs.train_input, steps=1, hooks=[lambda step, metrics, _: seen.append(metrics["loss"])]
  )
  several = device != "cpu"
  assert seen == [5.0 if several else 0.0]  # the mean of 0 and of two rows of five ids that are 1
  found = [row["ids"] for row in estimator.predict(programs.examples(4))]
  wanted = [0, 0, 1, 1] if several else [0] * 4
  np.testing.assert_array_equal(found, np.outer(wanted, [1] * len(IDS)))
