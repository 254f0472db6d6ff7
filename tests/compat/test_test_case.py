"""Tests that come with programs: of tf.test.TestCase, with sessions."""

import tempfile

import numpy as np

import trainer.compat.v1 as tf
from tests.compat import programs


class SessionTest(tf.test.TestCase):
  def setUp(self):
    super().setUp()
    self.x = tf.placeholder(tf.float32, [None, 4])

  def test_gradients_of_variables(self):
    with self.test_session() as session:
      w = tf.get_variable("w", initializer=[1.0])
      gradient = tf.gradients(w * w, [w])
      session.run(tf.global_variables_initializer())
      self.assertAllClose(session.run(gradient), [[2.0]])

  def test_layers_are_numbered_by_graph(self):
    tf.keras.layers.Dense(3)(self.x)
    result = SessionTest("test_layers_have_habits_and_names_of_graph_mode").defaultTestResult()
    SessionTest("test_layers_have_habits_and_names_of_graph_mode").run(result)
    assert (result.testsRun, result.failures, result.errors) == (1, [], [])
    assert tf.keras.layers.Dense(3).name == "dense_1"

  def test_layers_have_habits_and_names_of_graph_mode(self):
    y = tf.layers.dense(self.x, self.x.shape[-1].value, kernel_initializer=tf.ones_initializer())
    y = tf.keras.layers.Dense(3, kernel_initializer="ones")(y)
    assert y in [self.x, y]
    with self.session() as session:
      session.run([tf.global_variables_initializer(), tf.tables_initializer()])
      self.assertAllClose(session.run(y, {self.x: np.ones([2, 4])}), np.full([2, 3], 16.0))
    names = [variable.op.name for variable in tf.trainable_variables()]
    assert names == ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]

  def test_initial_value_of_a_variable_feeds_its_assignment(self):
    tf.layers.dense(self.x, 2, use_bias=False)
    (kernel,) = tf.trainable_variables()
    assert kernel.initializer.type == "Assign"  # what walks a graph from tensor to tensor finds
    assert kernel.initializer.outputs

  def test_an_optimizer_trains(self):
    w = tf.get_variable("w", initializer=[1.0, 2.0])
    train_op = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(w * w))
    with self.cached_session() as session:
      session.run(tf.global_variables_initializer())
      for _ in range(3):
        session.run(train_op)
      self.assertAllClose(w.eval(), [0.7015873, 1.7006245])  # of TensorFlow 2.15.1

  def test_an_estimator_trains_outside_of_the_graph_of_the_test(self):
    estimator = programs.estimator(tempfile.mkdtemp())

    def input_fn():
      return programs.train_input_fn({"batch_size": 16})

    estimator.train(input_fn, steps=2)
    assert estimator.evaluate(input_fn, steps=1)["global_step"] == 2
    assert next(estimator.predict(input_fn)) is not None
    assert estimator.get_variable_value("global_step") == 2
    assert self.x.graph is tf.get_default_graph()
