"""Dropout of few random bits: what it drops, what it keeps, and what it leaves to Keras."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainer.tracing import cpu_kernels


def drop(*args, **kwargs):
  with cpu_kernels.use():
    return keras.random.dropout(*args, **kwargs)


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.1, 1 / 3, 0.99])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_share_that_is_dropped(rate, dtype):
  inputs = tf.ones([1001, 999], dtype)  # of which neither 2 nor 4 is a factor
  outputs = drop(inputs, rate, seed=3)
  assert outputs.dtype == inputs.dtype
  assert outputs.shape == inputs.shape
  values = outputs.numpy().astype(np.float32)
  assert len(np.unique(values)) == 2
  deviation = np.sqrt(rate * (1 - rate) / values.size)
  assert (values == 0).mean() == pytest.approx(rate, abs=5 * deviation + 2**-17)
  kept = 1 - round(rate * 2**16) / 2**16
  assert values.max() == tf.cast(1 / kept, dtype).numpy()


def test_elements_are_dropped_independently():
  dropped = (drop(tf.ones([250_000, 8]), 0.5, seed=1).numpy() == 0).astype(float)
  deviation = 1 / np.sqrt(len(dropped))
  correlations = np.corrcoef(dropped.T) - np.eye(8)  # of the four bytes of a word, and of two words
  assert np.abs(correlations).max() < 5 * deviation
  shifted = np.corrcoef(dropped[:-1, 0], dropped[1:, 0])[0, 1]
  assert abs(shifted) < 5 * deviation


def test_a_seed_gives_the_same_again_and_another_does_not():
  inputs = tf.ones([64, 64])
  first, again, other = (drop(inputs, 0.25, seed=seed).numpy() for seed in (1, 1, 2))
  np.testing.assert_array_equal(first, again)
  assert (first != other).mean() == pytest.approx(2 * 0.25 * 0.75, abs=0.05)


def test_the_gradient_is_that_of_what_is_kept():
  inputs = tf.random.stateless_normal([100, 10], [1, 1])
  with tf.GradientTape() as tape:
    tape.watch(inputs)
    outputs = drop(inputs, 0.2, seed=5)
  np.testing.assert_allclose(
    tape.gradient(outputs, inputs), np.where(outputs == 0, 0, 1.25), rtol=1e-4
  )


def test_what_is_dropped_is_zero_whatever_it_was():
  assert not np.isnan(drop(tf.constant(np.nan, shape=[1000]), 0.5, seed=1)).all()


def test_a_noise_shape():
  outputs = drop(tf.ones([50, 20, 4]), 0.5, noise_shape=(None, 1, None), seed=2).numpy()
  np.testing.assert_array_equal(outputs, np.broadcast_to(outputs[:, :1], outputs.shape))
  assert 0 < (outputs == 0).mean() < 1


def test_a_batch_whose_size_is_not_known():
  @tf.function(input_signature=[tf.TensorSpec([None, 7])])
  def traced(inputs):
    return drop(inputs, 0.1, seed=2)

  for size in (3, 5, 0):
    np.testing.assert_array_equal(traced(tf.ones([size, 7])), drop(tf.ones([size, 7]), 0.1, seed=2))


@pytest.mark.parametrize(
  "rate, drawn",
  [
    (0.0, []),
    (1.0, []),
    (1e-9, ["StatelessRandomUniformV2"]),
    (0.25, ["StatelessRandomUniformFullIntV2"]),
  ],
)
def test_a_layer_uses_it_where_the_rate_can_be_had(rate, drawn):
  layer = keras.layers.Dropout(rate, seed=1)

  @tf.function(autograph=False)
  def step(inputs):
    with cpu_kernels.use():
      return layer(inputs, training=True)

  graph = step.get_concrete_function(tf.TensorSpec([8, 8])).graph
  kinds = collections.Counter(operation.type for operation in graph.get_operations())
  assert [kind for kind in kinds if kind.startswith("StatelessRandomUniform")] == drawn
