"""Adam in one operation computes what Keras's does, and is used where it pays."""

import collections
import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer.tracing import cpu_kernels

SHAPES = [(200, 100), (100,), (128, 128)]  # the second is small


def trained(optimizer, fused, sparse=False):
  """(values after 50 updates, counts of operations in one)."""
  variables = [
    keras.Variable(np.random.RandomState(i).randn(*shape).astype(np.float32))
    for i, shape in enumerate(SHAPES)
  ]
  directions = [
    tf.constant(np.random.RandomState(9 + i).randn(*shape).astype(np.float32))
    for i, shape in enumerate(SHAPES)
  ]
  optimizer.build(variables)

  @tf.function(autograph=False)
  def step(x):
    gradients = [x * direction for direction in directions]
    if sparse:
      gradients[0] = tf.IndexedSlices(gradients[0][:3], [0, 5, 7], SHAPES[0])
    with cpu_kernels.use() if fused else contextlib.nullcontext():
      optimizer.apply(gradients, variables)

  for i in range(50):
    step(tf.constant(np.sin(i), tf.float32))
  operations = collections.Counter(
    operation.type
    for operation in step.get_concrete_function(tf.constant(0.0)).graph.get_operations()
  )
  return [variable.numpy() for variable in variables], operations["ResourceApplyAdam"]


class Own(keras.optimizers.Adam):
  def update_step(self, gradient, variable, learning_rate):
    self.assign_sub(variable, 2 * learning_rate * gradient)


@pytest.mark.parametrize(
  "make, fused_updates, sparse",
  [
    (lambda: keras.optimizers.Adam(1e-2), 2, False),
    (lambda: keras.optimizers.Adam(1e-2), 2, True),
    (lambda: keras.optimizers.AdamW(1e-2, weight_decay=0.1, clipnorm=1.0), 2, False),
    (lambda: keras.optimizers.Adam(1e-2, amsgrad=True), 0, False),
    (
      lambda: keras.optimizers.Adam(
        keras.optimizers.schedules.ExponentialDecay(1e-2, 10, 0.5), beta_1=0.8, epsilon=1e-3
      ),
      2,
      False,
    ),
    (lambda: Own(1e-2), 0, False),
    (lambda: keras.optimizers.SGD(1e-2), 0, False),
  ],
)
def test_it_computes_what_keras_does(make, fused_updates, sparse):
  values, operations = trained(make(), fused=True, sparse=sparse)
  expected, _ = trained(make(), fused=False, sparse=sparse)
  assert operations == fused_updates
  for value, other in zip(values, expected, strict=True):
    np.testing.assert_allclose(value, other, rtol=2e-6, atol=2e-6)
  np.testing.assert_array_equal(values[1], expected[1])  # the small one is Keras's own


@pytest.mark.of_tensorflows_replicas
@long.ON_TWO_CORES
def test_a_training_uses_it(tmp_path, device):
  def model_fn(features, labels, mode, params):
    y = keras.layers.Dense(1)(keras.layers.Dense(4000)(features["x"]))[:, 0]
    loss = tf.reduce_mean(tf.square(y - labels))
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(keras.optimizers.Adam(1e-3), loss)
    )

  estimator = programs.estimator(tmp_path, model_fn, device=device, cpu_kernels=True)
  estimator.train(programs.train_input, steps=3)
  graph = estimator.trace("train", programs.train_input).traced.function.graph
  text = str(graph.as_graph_def())
  assert text.count('op: "ResourceApplyAdam"') == estimator.device.replicas
