"""Random numbers that follow from seed, epoch and example."""

import numpy as np
import tensorflow as tf

from input_pipelines import randomness


def draw(seed, epochs, examples, count):
  return randomness.Draws(
    tf.constant(seed, tf.int64), tf.constant(epochs, tf.int64), tf.constant(examples, tf.int64)
  )(count).numpy()


def test_uniform_and_independent():
  numbers = draw(5, np.zeros(20_000), np.arange(20_000), 4)
  assert numbers.dtype == np.float32
  assert numbers.min() >= 0
  assert numbers.max() < 1
  counts = np.histogram(numbers, 20, (0, 1))[0]
  assert np.abs(counts / 4000 - 1).max() < 0.08  # five standard deviations
  assert np.abs(np.corrcoef(numbers.T) - np.eye(4)).max() < 0.03
  assert abs(np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]) < 0.03


def test_each_example_has_its_own_whatever_the_batch():
  whole = draw(5, [3, 3, 4], [7, 8, 7], 2)
  assert len(np.unique(whole)) == 6
  np.testing.assert_array_equal(draw(5, [4], [7], 2), whole[2:])
  assert not np.any(draw(6, [3, 3, 4], [7, 8, 7], 2) == whole)


def test_calls_go_on_where_the_last_one_ended():
  draws = randomness.Draws(
    tf.constant(5, tf.int64), tf.constant([0], tf.int64), tf.constant([1], tf.int64)
  )
  np.testing.assert_array_equal(np.concatenate([draws(2), draws(3)], 1), draw(5, [0], [1], 5))


def test_the_base_seed_is_the_runs():
  seeds = []
  for seed in (1, 1, 2, 0):
    tf.random.set_seed(seed)
    seeds.append(int(randomness.base_seed()))
  assert seeds[0] == seeds[1]
  assert len(set(seeds)) == 3
