"""Batch norm in one operation computes what Keras's layer does, and is used where it pays."""

import collections
import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer.kernels import batch_norm

SHAPE = (8, 5, 6, 32)


def outcome(layer, inputs, fused, training=True, mask=None):
  """(outputs, gradients, moving averages, counts of operations) of a call."""
  layer.build(inputs.shape)
  weights = [weight for weight in (layer.gamma, layer.beta) if weight is not None]
  generator = np.random.default_rng(3)
  for weight in (*weights, layer.moving_mean, layer.moving_variance):
    weight.assign(generator.uniform(0.5, 2, weight.shape))
  direction = tf.cast(tf.random.stateless_normal(inputs.shape, [5, 5]), layer.compute_dtype)

  @tf.function(autograph=False)
  def step(inputs):
    with batch_norm.used() if fused else contextlib.nullcontext(), tf.GradientTape() as tape:
      tape.watch(inputs)
      outputs = layer(inputs, training=training, mask=mask)
    return outputs, tape.gradient(outputs, [inputs, *(weight.value for weight in weights)], direction)

  kinds = collections.Counter(operation.type for operation in step.get_concrete_function(inputs).graph.get_operations())
  outputs, gradients = step(inputs)
  averages = [layer.moving_mean.numpy(), layer.moving_variance.numpy()]
  return outputs, gradients, averages, kinds["FusedBatchNormV3"]


def same(make, inputs, fused, tolerance=2e-5, **arguments):
  """Asserts that a layer gives what it gives without the operation, and uses it or not."""
  outputs, gradients, averages, operations = outcome(make(), inputs, True, **arguments)
  expected = outcome(make(), inputs, False, **arguments)
  assert operations == int(fused)
  assert expected[3] == 0
  assert outputs.dtype == expected[0].dtype
  for value, other in zip([outputs, *gradients, *averages], [expected[0], *expected[1], *expected[2]], strict=True):
    value, other = np.asarray(value, np.float32), np.asarray(other, np.float32)
    np.testing.assert_allclose(value, other, rtol=tolerance, atol=tolerance * np.abs(other).max())


def images(shape=SHAPE, dtype="float32"):
  return tf.cast(2 * tf.random.stateless_normal(shape, [1, 2]) + 1, dtype)


@pytest.mark.parametrize("arguments", [{}, {"scale": False}, {"center": False}, {"momentum": 0.5, "epsilon": 0.1}, {"axis": 3}, {"trainable": False}])
@pytest.mark.parametrize("training", [True, False, None])
def test_it_computes_what_keras_does(arguments, training):
  same(lambda: keras.layers.BatchNormalization(**arguments), images(), True, training=training)


@pytest.mark.parametrize("training", [True, False])
def test_bfloat16(training):
  same(lambda: keras.layers.BatchNormalization(dtype="mixed_bfloat16"), images(dtype="bfloat16"), True, tolerance=0.02, training=training)


class Own(keras.layers.BatchNormalization):
  def _moments(self, inputs, mask):
    mean, variance = super()._moments(inputs, mask)
    return mean, 2 * variance


@pytest.mark.parametrize("make, shape", [
    (keras.layers.BatchNormalization, (8, 5, 6, 3)),  # channels
    (keras.layers.BatchNormalization, (8, 32)),
    (keras.layers.BatchNormalization, (1, 1, 1, 16)),
    (lambda: keras.layers.BatchNormalization(axis=1), (8, 16, 4, 16)),
    (lambda: keras.layers.BatchNormalization(dtype="float64"), SHAPE),
    (lambda: keras.layers.BatchNormalization(renorm=True), SHAPE),
    (Own, SHAPE),
])
def test_others_are_left_to_keras(make, shape):
  same(make, images(shape, make().dtype), False)


def test_a_mask_is_left_to_keras():
  same(keras.layers.BatchNormalization, images(), False, mask=tf.cast(tf.random.stateless_uniform(SHAPE[:3], [1, 2]) > 0.5, tf.bool))


def test_a_batch_whose_size_is_not_known():
  layer = keras.layers.BatchNormalization()

  def operations(training):
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, 4, 4, 16])])
    def step(inputs):
      with batch_norm.used():
        return layer(inputs, training=training)

    return [operation.type for operation in step.get_concrete_function().graph.get_operations()]

  assert "FusedBatchNormV3" not in operations(True)
  assert "FusedBatchNormV3" in operations(False)


@pytest.mark.parametrize("device", ["cpu", "cpu:8"])
def test_a_training_uses_it_and_an_export_does_not(tmp_path, device):
  def model_fn(features, labels, mode, params):
    images = keras.layers.Reshape([1, 1, 16])(keras.layers.Dense(16)(features["x"]))
    y = tf.reduce_mean(keras.layers.BatchNormalization()(images, training=mode == trainer.ModeKeys.TRAIN), [1, 2, 3])
    if mode == trainer.ModeKeys.PREDICT:
      return trainer.EstimatorSpec(mode, predictions={"y": y})
    loss = tf.reduce_mean(tf.square(y - labels))
    return trainer.EstimatorSpec(mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(1e-3), loss))

  estimator = programs.estimator(tmp_path, model_fn, device=device, batch_size=32)
  estimator.train(programs.train_input, steps=3)
  graph = estimator._loops._train_loop._list_all_concrete_functions()[0].graph
  assert str(graph.as_graph_def()).count('op: "FusedBatchNormV3"') == {"cpu": 1, "cpu:8": 8}[device]
  exported = tf.saved_model.load(estimator.export_saved_model(str(tmp_path / "export")))
  assert "FusedBatchNorm" not in str(exported.signatures["serving_default"].graph.as_graph_def())
  x = programs.arrays(16)[0]
  served = exported.signatures["serving_default"](x=tf.constant(x))["y"]
  np.testing.assert_allclose([row["y"] for row in estimator.predict(programs.examples(16))], served, rtol=1e-5)
