"""tf.recompute_grad and keras.RematScope inside a model_fn: the same values as without them."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer import errors

ROWS = 128


def model_fn(kind, made_inside=False, draw=None):
  """Two blocks with all that a second call may change: statistics, dropout, new layers."""

  def layers(number):
    return [
      keras.layers.Dense(8, name=f"dense_{number}"),
      keras.layers.BatchNormalization(momentum=0.5, name=f"norm_{number}"),
      keras.layers.Dropout(0.5, name=f"dropout_{number}"),
    ]

  def blocks(x, training):
    for number in range(2):
      made = None if made_inside else layers(number)

      def block(x, number=number, made=made):
        dense, norm, dropout = made or layers(number)
        x = dropout(norm(dense(x), training=training), training=training)
        x += keras.random.normal([1, 8])
        return keras.ops.gelu(x if draw is None else draw(x))

      x = tf.recompute_grad(block)(x) if kind == "recompute_grad" else block(x)
    return x

  def function(features, labels, mode, params):
    training = mode == trainer.ModeKeys.TRAIN
    if kind == "scope":
      with keras.RematScope(mode="full"):
        x = blocks(features["x"], training)
    else:
      x = blocks(features["x"], training)
    outputs = keras.layers.Dense(1, name="head")(x)[:, 0]
    loss = tf.reduce_mean(tf.square(outputs - labels))
    train_op = trainer.minimize(keras.optimizers.SGD(0.05), loss)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return function


def values(folder, device, *arguments):
  estimator = programs.estimator(folder, model_fn(*arguments), device, batch_size=ROWS)
  estimator.train(programs.train_input, max_steps=3)
  return {name: variable.numpy() for name, variable in estimator.variables.items()}


@pytest.fixture(scope="module")
def plain_values(tmp_path_factory):
  """device → what is trained without any of both."""
  return functools.cache(lambda device: values(tmp_path_factory.mktemp("plain"), device, "plain"))


@pytest.mark.parametrize(
  "kind, made_inside, device",
  long.except_for(
    [("recompute_grad", False, "cpu:2"), ("scope", True, "cpu")],
    itertools.product(
      ["recompute_grad", "scope"], [False, True], ["cpu", "cpu:2", "cpu:8", "xla:8"]
    ),
  ),
  indirect=["device"],
)
def test_values_are_those_without(kind, made_inside, device, tmp_path, plain_values):
  if kind == "scope" and not hasattr(keras, "RematScope"):
    pytest.skip("this Keras has none")
  plain = plain_values(device)
  found = values(tmp_path, device, kind, made_inside)
  assert set(found) == set(plain)
  for name, value in plain.items():
    np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_forward_pass_is_computed_again(tmp_path):
  """A print in a block says so: once for the loss, once for the gradient."""
  seen = []

  def note(x):
    return tf.grad_pass_through(
      lambda x: tf.numpy_function(lambda y: (seen.append(1), y)[1], [x], x.dtype)
    )(x)

  def function(features, labels, mode, params):
    w = tf.Variable(tf.ones([programs.WIDTH]), name="w")

    def block(x):
      noted = tf.ensure_shape(note(x), x.shape)
      return tf.square(noted * w)

    loss = tf.reduce_mean(tf.recompute_grad(block)(features["x"]))
    train_op = trainer.minimize(keras.optimizers.SGD(0.05), loss)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  programs.estimator(tmp_path, function, batch_size=ROWS).train(programs.train_input, max_steps=2)
  assert len(seen) == 4


def test_numbers_that_would_differ_are_refused(tmp_path):
  arguments = ("recompute_grad", False, lambda x: tf.nn.dropout(x, 0.5))
  with pytest.raises(errors.ModelFnError, match="RandomUniform .* would draw other numbers"):
    values(tmp_path, "cpu", *arguments)


def test_a_function_may_have_several_results_and_keywords(tmp_path):
  def function(features, labels, mode, params):
    w = tf.Variable(tf.ones([programs.WIDTH]), name="w")

    def block(x, *, scale, twice):
      y = x * w * scale
      return {"y": y, "z": y * 2 if twice else y}

    given = features["x"]
    results = tf.recompute_grad(block)(given, scale=tf.reduce_sum(w), twice=True)
    loss = tf.reduce_mean(tf.square(results["y"]) + results["z"])
    check = tf.reduce_mean(tf.square(given * w * 3.0) + given * w * 3.0 * 2)
    tf.debugging.assert_near(loss, check)
    scale = tf.reduce_sum(w)
    plain = tf.gradients(tf.reduce_mean(tf.square(given * w * scale) + given * w * scale * 2), [w])
    tf.debugging.assert_near(tf.gradients(loss, [w])[0], plain[0], rtol=1e-4)
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.0), loss)
    )

  programs.estimator(tmp_path, function, batch_size=ROWS).train(programs.train_input, max_steps=1)
