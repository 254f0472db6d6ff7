"""Replaced learning rates: of which optimizers, and only inside of the scope."""

import contextlib

import keras
import pytest
import tensorflow as tf

from trainer.optimization import replaced_rates

v1 = tf.compat.v1


class Halving(keras.optimizers.schedules.LearningRateSchedule):
  """Half of a rate, whatever the step."""

  def __call__(self, step=None):
    return tf.constant(0.5)


SCHEDULE = Halving()

KERAS = {
  "a number": lambda: keras.optimizers.SGD(0.1),
  "a schedule": lambda: keras.optimizers.Adam(
    keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
  ),
  "scaled losses": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
}


@pytest.mark.parametrize("make", KERAS.values(), ids=KERAS)
def test_an_optimizer_of_keras_steps_with_the_schedule(make):
  variable = keras.Variable(1.0)
  optimizer = make()
  optimizer.build([variable])
  with replaced_rates.scope(SCHEDULE) as replaced:
    replaced_rates.replace(optimizer)
  assert replaced == [type(optimizer).__name__]
  assert float(optimizer.learning_rate) == 0.5


V1 = {
  "GradientDescent": v1.train.GradientDescentOptimizer,
  "Adam": v1.train.AdamOptimizer,
  "Adagrad": v1.train.AdagradOptimizer,
  "Ftrl": v1.train.FtrlOptimizer,
  "a function": lambda rate: v1.train.MomentumOptimizer(lambda: rate, 0.0),
}


def after_a_step(make, rate, context):
  """The value of a weight after a step of an optimizer."""
  with tf.Graph().as_default(), v1.Session() as session:
    w = v1.get_variable("w", initializer=1.0, use_resource=True)
    optimizer = make(rate)
    with context as replaced:
      replaced_rates.replace(optimizer)
    train = optimizer.apply_gradients([(tf.constant(1.0), w)])
    session.run(v1.global_variables_initializer())
    session.run(train)
    return session.run(w), replaced, [type(optimizer).__name__]


@pytest.mark.parametrize("make", V1.values(), ids=V1)
def test_an_optimizer_of_tf1_steps_with_the_schedule(make):
  found, replaced, names = after_a_step(make, 0.1, replaced_rates.scope(SCHEDULE))
  assert replaced == names
  assert found == after_a_step(make, 0.5, contextlib.nullcontext())[0]
  assert found != after_a_step(make, 0.1, contextlib.nullcontext())[0]


def test_an_optimizer_without_a_rate_is_not_counted():
  with replaced_rates.scope(SCHEDULE) as replaced:
    replaced_rates.replace(object())
  assert replaced == []


def test_each_class_is_named_once():
  with replaced_rates.scope(SCHEDULE) as replaced:
    for make in (*KERAS.values(), KERAS["a number"]):
      replaced_rates.replace(make())
  assert replaced == ["SGD", "Adam", "LossScaleOptimizer"]


def test_outside_of_the_scope_rates_stay():
  with replaced_rates.scope(SCHEDULE):
    pass
  optimizer = keras.optimizers.SGD(0.25)
  replaced_rates.replace(optimizer)
  assert float(optimizer.learning_rate) == 0.25
