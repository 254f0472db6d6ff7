"""SparseTensors of an input_fn reach the model_fn, on several cores too."""

import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests.compat import programs
from trainer import errors
from trainer.compat.v1 import estimator as tf_estimator

# Of TensorFlow 2.15.1: the first of two equal columns.
EMBEDDED = [
  *(0.2601594626903534, 0.46875, 0.46685314178466797, 0.34671586751937866),
  *(0.2589056193828583, 0.375, 0.28026139736175537),
]
EMBEDDED_LOSS = 0.1670156


def ids_of_any_width():
  """Batches of four lists of words, as wide as the longest."""
  ragged = tf.ragged.constant([[i % 7, i % 5, i % 3][: 1 + i % 3] for i in range(16)], tf.int64)
  data = tf.data.Dataset.from_tensor_slices((ragged, [[i / 16] for i in range(16)])).repeat(2)
  return data.batch(4).map(lambda ids, y: ({"ids": ids.to_sparse()}, y))


def embeds(features, labels, mode):
  table = tf.get_variable("t", [7, 2], initializer=tf.constant_initializer(0.1))
  means = tf.nn.embedding_lookup_sparse(table, features["ids"], None, combiner="mean")
  loss = tf.reduce_mean((tf.reduce_sum(means, -1, keepdims=True) - labels) ** 2)
  train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, tf.train.get_global_step())
  return tf_estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.parametrize("device", ["cpu", "cpu:4"])
def test_sparse_features_of_unknown_width_are_trained_on(tmp_path, device):
  estimator = programs.estimator(tmp_path, device, fn=embeds)
  estimator.train(ids_of_any_width)
  np.testing.assert_allclose(estimator.get_variable_value("t")[:, 0], EMBEDDED, atol=1e-6)
  assert estimator.evaluate(ids_of_any_width)["loss"] == pytest.approx(EMBEDDED_LOSS, abs=1e-6)


def test_a_last_batch_of_sparse_features_counts(tmp_path):
  estimator = programs.estimator(tmp_path, "cpu:4", fn=embeds)
  estimator.train(ids_of_any_width, steps=1)
  alone = programs.estimator(tmp_path, "cpu", fn=embeds)

  def nine():  # of which a core gets one, and the others none
    return ids_of_any_width().unbatch().take(9).batch(4)

  assert estimator.evaluate(nine)["loss"] == pytest.approx(alone.evaluate(nine)["loss"])


def test_sparse_features_of_unknown_width_are_refused_by_xla(tmp_path):
  with pytest.raises(errors.InputError, match="SparseTensor .*ids.* width"):
    programs.estimator(tmp_path, "xla:2", fn=embeds).train(ids_of_any_width)
