"""RunConfig.cpu_kernels says whether a training uses the CPU kernels."""

import itertools

import keras
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs


def kernels_used(tmp_path, device, **config):
  """Whether a training step's BatchNormalization is one operation of TensorFlow."""
  types = set()

  def model_fn(features, labels, mode, params):
    x = keras.layers.Dense(4 * 4 * 16)(features["x"])
    x = keras.layers.BatchNormalization()(tf.reshape(x, [-1, 4, 4, 16]), training=True)
    types.update(operation.type for operation in tf.compat.v1.get_default_graph().get_operations())
    loss = tf.reduce_mean(tf.square(tf.reduce_mean(x, [1, 2, 3]) - labels))
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.05), loss)
    )

  estimator = programs.estimator(tmp_path, model_fn, device=device, batch_size=16, **config)
  estimator.train(programs.train_input, steps=1)
  return "FusedBatchNormV3" in types


@pytest.mark.parametrize("device, default", [("cpu", True), ("cpu:2", False)])
def test_one_core_uses_kernels_by_default_and_tpu_rehearsal_not(tmp_path, device, default):
  assert kernels_used(tmp_path, device) == default


@pytest.mark.parametrize(
  "setting, device",
  long.except_for(
    [(False, "cpu"), (True, "cpu:2")], itertools.product([True, False], ["cpu", "cpu:2"])
  ),
)
def test_the_setting_holds_on_every_cpu_device(tmp_path, device, setting):
  assert kernels_used(tmp_path, device, cpu_kernels=setting) == setting
