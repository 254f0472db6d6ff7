"""The results of the batches of a group, with the padding left out."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.programs import group_results

ROWS = np.array([2, 0, 1])  # examples that count, in batches of two


@pytest.mark.parametrize("shape", [[6, 2], [None, 2], None])
def test_metrics_take_the_batches_that_count(shape):
  class Metrics:
    def update(self, metric_fn, tensors):
      return metric_fn(tensors)

  @tf.function(input_signature=[tf.TensorSpec(shape, tf.int32)])
  def add(x):
    counts = tf.constant([True, False, True])
    return group_results.add_to_metrics(Metrics(), lambda given: given["x"], {"x": x}, counts)

  found = add(tf.reshape(tf.range(12), [6, 2]))
  np.testing.assert_array_equal(found, [[0, 1], [2, 3], [8, 9], [10, 11]])


def test_a_loss_counts_once_for_each_example():
  found = group_results.sums_of_losses((tf.constant([0.5, np.nan, 3.0]),), tf.constant(ROWS))
  assert (found.dtype, found.numpy().tolist()) == (tf.float64, [[2 * 0.5 + 3.0, 3.0]])


def test_a_global_mean_counts_its_own_weights():
  mean = tf.constant([6.0, np.nan, 1.0]), tf.constant([4.0, np.nan, 0.5])
  found = group_results.sums_of_losses((tf.zeros([3]), mean), tf.constant(ROWS))
  assert found.numpy().tolist() == [[0.0, 3.0], [7.0, 4.5]]


def test_predictions_and_examples_lose_their_padding():
  given = {"y": np.arange(6), "z": np.arange(12).reshape(6, 2)}
  predictions, element = group_results.without_padding(given, ROWS, (np.arange(6) * 10,))
  np.testing.assert_array_equal(predictions["y"], [0, 1, 4])
  np.testing.assert_array_equal(predictions["z"], [[0, 1], [2, 3], [8, 9]])
  np.testing.assert_array_equal(element[0], [0, 10, 40])


def test_full_batches_are_not_copied():
  given = np.arange(6)
  assert group_results.without_padding(given, np.array([2, 2, 2]), None) == (given, None)


def test_predictions_may_have_no_examples():
  predictions, element = group_results.without_padding(np.arange(6), ROWS, None)
  assert (predictions.tolist(), element) == ([0, 1, 4], None)
