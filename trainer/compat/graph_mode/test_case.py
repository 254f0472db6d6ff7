"""Tests of TensorFlow 1 run in a graph, and their session computes its operations.

    class ModelTest(tf.test.TestCase):
      def test_loss(self):
        with self.test_session() as session:
          loss = make_loss(tf.get_variable("w", []))
          session.run(tf.global_variables_initializer())

An Estimator that such a test makes trains outside of the graph.
"""

from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import habits
from trainer.internals import keras_internals

v1 = tf.compat.v1


class TestCase(tf.test.TestCase):
  """tf.test.TestCase. Its methods run in a graph with the habits of graph mode."""

  def setUp(self) -> None:
    super().setUp()
    # As in TensorFlow 1: programs that walk a graph find initializers by their inputs.
    v1.get_variable_scope().set_use_resource(False)

  def run(self, result: Any = None) -> Any:
    # TensorFlow's TestCase.setUp makes another graph: the habits hold in any graph of the test.
    # TensorFlow 2.15 numbers Keras's layers by graph, Keras 3 by thread.
    numbers = keras_internals.global_state({"object_name_uids": None})
    with tf.Graph().as_default(), habits.enable_in_any_graph(), numbers:
      return super().run(result)
