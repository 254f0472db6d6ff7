"""Batch norm in one operation or by rows computes what Keras's layer does, and is used where it
pays.
"""

import contextlib
import itertools
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer.tracing import cpu_kernels
from trainer.tracing.cpu_kernels import batch_norm

SHAPE = (8, 5, 6, 32)
COLOURS = (8, 5, 6, 3)

FUSED, ROWS = "_in_one_operation", "_by_rows"


@contextlib.contextmanager
def noted():
  """A set of the ways of the module that are taken inside."""
  ways = set()

  def noting(name, way):
    def call(*args):
      ways.add(name)
      return way(*args)

    return call

  with contextlib.ExitStack() as patches:
    for name in (FUSED, ROWS):
      patches.enter_context(
        mock.patch.object(batch_norm, name, noting(name, getattr(batch_norm, name)))
      )
    yield ways


def outcome(layer, inputs, replaced, training=True, mask=None):
  """(outputs, gradients, moving averages, the ways that were taken) of a call."""
  layer.build(inputs.shape)
  weights = [weight for weight in (layer.gamma, layer.beta) if weight is not None]
  generator = np.random.default_rng(3)
  for weight in (*weights, layer.moving_mean, layer.moving_variance):
    weight.assign(generator.uniform(0.5, 2, weight.shape))
  direction = tf.cast(tf.random.stateless_normal(inputs.shape, [5, 5]), layer.compute_dtype)

  @tf.function(autograph=False)
  def step(inputs):
    with cpu_kernels.use() if replaced else contextlib.nullcontext(), tf.GradientTape() as tape:
      tape.watch(inputs)
      outputs = layer(inputs, training=training, mask=mask)
    return outputs, tape.gradient(
      outputs, [inputs, *(weight.value for weight in weights)], direction
    )

  with noted() as ways:
    outputs, gradients = step(inputs)
  averages = [layer.moving_mean.numpy(), layer.moving_variance.numpy()]
  return outputs, gradients, averages, ways


def same(make, inputs, ways, tolerance=2e-5, **arguments):
  """Asserts that a layer gives what Keras's does, and in which of the two ways, if any."""
  outputs, gradients, averages, found = outcome(make(), inputs, True, **arguments)
  expected = outcome(make(), inputs, False, **arguments)
  assert found == set(ways)
  assert expected[3] == set()
  assert outputs.dtype == expected[0].dtype
  for value, other in zip(
    [outputs, *gradients, *averages], [expected[0], *expected[1], *expected[2]], strict=True
  ):
    value, other = np.asarray(value, np.float32), np.asarray(other, np.float32)
    np.testing.assert_allclose(value, other, rtol=tolerance, atol=tolerance * np.abs(other).max())


def images(shape=SHAPE, dtype="float32"):
  return tf.cast(2 * tf.random.stateless_normal(shape, [1, 2]) + 1, dtype)


ARGUMENTS = [
  {},
  {"scale": False},
  {"center": False},
  {"momentum": 0.5, "epsilon": 0.1},
  {"axis": 3},
  {"trainable": False},
]


@pytest.mark.parametrize(
  ("arguments", "training"),
  long.except_for(
    [*itertools.product(ARGUMENTS, [True, False]), ({}, None)],
    itertools.product(ARGUMENTS, [True, False, None]),
  ),
)
@pytest.mark.parametrize(("shape", "way"), [(SHAPE, FUSED), (COLOURS, ROWS)])
def test_it_computes_what_keras_does(arguments, training, shape, way):
  same(
    lambda: keras.layers.BatchNormalization(**arguments), images(shape), [way], training=training
  )


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("shape", "way"), [(SHAPE, FUSED), (COLOURS, ROWS)])
def test_bfloat16(training, shape, way):
  same(
    lambda: keras.layers.BatchNormalization(dtype="mixed_bfloat16"),
    images(shape, "bfloat16"),
    [way],
    tolerance=0.02,
    training=training,
  )


class Own(keras.layers.BatchNormalization):
  def _moments(self, inputs, mask):
    mean, variance = super()._moments(inputs, mask)
    return mean, 2 * variance


@pytest.mark.parametrize(
  "make, shape",
  [
    (keras.layers.BatchNormalization, (8, 5, 6, 24)),  # channels
    (keras.layers.BatchNormalization, (8, 5, 6, 1)),
    (keras.layers.BatchNormalization, (8, 5, 1, 3)),  # no rows
    (keras.layers.BatchNormalization, (8, 32)),
    (keras.layers.BatchNormalization, (1, 1, 1, 16)),
    (lambda: keras.layers.BatchNormalization(axis=1), (8, 16, 4, 16)),
    (lambda: keras.layers.BatchNormalization(dtype="float64"), SHAPE),
    (lambda: keras.layers.BatchNormalization(renorm=True), SHAPE),
    (Own, SHAPE),
  ],
)
def test_others_are_left_to_keras(make, shape):
  same(make, images(shape, make().dtype), [])


def test_a_mask_is_left_to_keras():
  same(
    keras.layers.BatchNormalization,
    images(),
    [],
    mask=tf.cast(tf.random.stateless_uniform(SHAPE[:3], [1, 2]) > 0.5, tf.bool),
  )


@pytest.mark.parametrize(("channels", "way"), [(16, FUSED), (3, ROWS)])
def test_a_batch_whose_size_is_not_known(channels, way):
  layer = keras.layers.BatchNormalization()

  def taken(training):
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, 4, 4, channels])])
    def step(inputs):
      with cpu_kernels.use():
        return layer(inputs, training=training)

    with noted() as ways:
      traced = step.get_concrete_function()
    assert traced.structured_outputs.shape.as_list() == [None, 4, 4, channels]
    assert traced(tf.zeros([5, 4, 4, channels])).shape == (5, 4, 4, channels)
    return ways

  assert taken(training=True) == set()
  assert taken(training=False) == {way}


@pytest.mark.of_tensorflows_replicas
@pytest.mark.long_on_several_cores  # test_setting.py has them in the gate
def test_a_training_uses_it_and_an_export_does_not(tmp_path, device):
  def model_fn(features, labels, mode, params):
    images = keras.layers.Reshape([1, 1, 16])(keras.layers.Dense(16)(features["x"]))
    y = tf.reduce_mean(
      keras.layers.BatchNormalization()(images, training=mode == trainer.ModeKeys.TRAIN), [1, 2, 3]
    )
    if mode == trainer.ModeKeys.PREDICT:
      return trainer.EstimatorSpec(mode, predictions={"y": y})
    loss = tf.reduce_mean(tf.square(y - labels))
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(1e-3), loss)
    )

  estimator = programs.estimator(tmp_path, model_fn, device=device, batch_size=32, cpu_kernels=True)
  estimator.train(programs.train_input, steps=3)
  graph = estimator.trace("train", programs.train_input).traced.function.graph
  operations = str(graph.as_graph_def()).count('op: "FusedBatchNormV3"')
  assert operations == estimator.device.replicas
  exported = tf.saved_model.load(estimator.export_saved_model(str(tmp_path / "export")))
  assert "FusedBatchNorm" not in str(exported.signatures["serving_default"].graph.as_graph_def())
  x = programs.arrays(16)[0]
  served = exported.signatures["serving_default"](x=tf.constant(x))["y"]
  np.testing.assert_allclose(
    [row["y"] for row in estimator.predict(programs.examples(16))], served, rtol=1e-5
  )
