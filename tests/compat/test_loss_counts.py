"""Where the count of the examples of a loss is a constant, the loss is TensorFlow's."""

import numpy as np
import pytest
import tensorflow

import trainer.compat.v1 as tf
from trainer.compat.graph_mode import habits, loss_counts  # noqa: F401 (for what it replaces)
from trainer.internals import patches

X = np.arange(12, dtype="float32").reshape(4, 3)


def loss_of(weights, rows=4):
  """(value, gradient, number of operations) of a loss in a program's function."""
  patches.install()
  with tf.Graph().as_default() as graph, tf.Session() as session, habits.enable(graph):
    x = tf.placeholder_with_default(X, [rows, 3])
    loss = tf.losses.mean_squared_error(tf.zeros([4, 3]), x, weights=weights)
    gradient = tensorflow.compat.v1.gradients(loss, x)[0]
    return *session.run((loss, gradient)), len(graph.get_operations())


@pytest.mark.parametrize("weights", [1.0, 2.5])
def test_a_weight_that_is_one_number_needs_no_count(weights):
  value, gradient, operations = loss_of(weights)
  assert value == pytest.approx(weights * (X**2).mean())
  np.testing.assert_allclose(gradient, weights * 2 * X / X.size, rtol=1e-6)
  assert operations < loss_of(np.full([4, 1], weights, "float32"))[2] - 8


def test_weights_of_examples_and_a_weight_of_zero_are_counted():
  weights = np.array([[1.0], [0.0], [2.0], [0.0]], "float32")
  assert loss_of(weights)[0] == pytest.approx((weights * X**2).sum() / 6)
  assert loss_of(0.0)[0] == 0.0


def test_a_batch_of_any_size_is_counted():
  assert loss_of(1.0, rows=None)[0] == pytest.approx((X**2).mean())
