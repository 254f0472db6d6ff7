"""keras.Input(tensor=...) in a program's functions."""

import keras
import numpy as np
import pytest

import trainer.compat.v1 as tf
from trainer.compat.graph_mode import habits, keras_inputs


def test_layers_after_an_input_around_a_tensor_compute_with_it():
  with tf.Graph().as_default(), habits.enable(), tf.Session() as session:
    x = tf.constant([[1.0, -2.0]])
    given = tf.keras.Input(tensor=x, shape=[2], name="given")
    twice = tf.keras.layers.Lambda(lambda value: value * 2, name="twice")(given)
    together = tf.keras.layers.concatenate([twice, keras.ops.abs(given)])
    assert isinstance(together, keras_inputs.ValuedTensor)
    assert together.get_shape().as_list() == [1, 4]
    logits = tf.keras.layers.Dense(3, kernel_initializer="ones", name="dense")(together)
    model = tf.keras.Model([given], logits)
    assert [layer.name for layer in model.layers[:2]] == ["given", "twice"]
    assert [variable.op.name for variable in tf.trainable_variables()] == [
      "dense/kernel",
      "dense/bias",
    ]
    session.run(tf.global_variables_initializer())
    np.testing.assert_array_equal(session.run(tf.identity(model.output)), [[1, 1, 1]])
    np.testing.assert_array_equal(session.run(model(tf.ones([1, 2]))), [[6, 6, 6]])


def test_other_inputs_have_no_value():
  with tf.Graph().as_default(), habits.enable():
    given = tf.keras.Input(tensor=tf.ones([1, 2]))
    with pytest.raises(ValueError, match="cannot be used as input to a TensorFlow function"):
      tf.identity(tf.keras.layers.add([given, tf.keras.Input([2])]))
  with pytest.raises(ValueError, match="must be a KerasTensor"):
    tf.keras.Input(tensor=tf.ones([1, 2]))


def test_a_model_of_keras_applications_takes_a_tensor():
  with tf.Graph().as_default(), habits.enable(), tf.Session() as session:
    images = tf.ones([1, 32, 32, 3])
    model = tf.keras.applications.MobileNet(
      alpha=0.25, input_tensor=images, weights=None, classes=5
    )
    logits = model(images, training=True)
    session.run(tf.global_variables_initializer())
    np.testing.assert_allclose(session.run(tf.reduce_sum(logits)), 1.0, rtol=1e-5)
