"""Estimators in threads: one for several, one for each; the numbers are those of a thread alone."""

import threading
from concurrent import futures

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors

ModeKeys = trainer.ModeKeys


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """An Estimator with checkpoints of steps 0, 2 and 4."""
  estimator = programs.estimator(
    tmp_path_factory.mktemp("trained"), save_checkpoints_steps=2, keep_checkpoint_max=0
  )
  return estimator.train(programs.train_input, steps=4)


def in_threads(function, arguments):
  """What function gives for each argument, two at a time."""
  with futures.ThreadPoolExecutor(2) as pool:
    return list(pool.map(function, arguments))


def same(values, expected):
  return [np.array_equal(value, other) for value, other in zip(values, expected, strict=True)]


def test_each_thread_gets_the_predictions_of_its_checkpoint(trained):
  def predict(step):
    path = trained.checkpoint_path(step)
    return [p["y"] for p in trained.predict(programs.examples(20), checkpoint_path=path)]

  steps = [0, 4] * 4
  expected = {step: predict(step) for step in (0, 4)}
  assert not np.array_equal(expected[0], expected[4])
  assert all(same(in_threads(predict, steps), [expected[step] for step in steps]))


def test_each_thread_gets_the_evaluation_of_its_checkpoint(trained):
  def evaluate(step):
    path = trained.checkpoint_path(step)
    return trained.evaluate(programs.examples(20), checkpoint_path=path)

  steps = [0, 4] * 4
  expected = {step: evaluate(step) for step in (0, 4)}
  assert expected[0]["loss"] != expected[4]["loss"]
  assert in_threads(evaluate, steps) == [expected[step] for step in steps]


def test_alternating_predictions_keep_their_own_checkpoints(trained):
  ended = {}

  class Note:
    def __init__(self, name):
      self.name = name

    def __call__(self, step, metrics, estimator):
      ended[self.name] = step

  def predictions(step):
    path = trained.checkpoint_path(step)
    found = trained.predict(programs.examples(20), hooks=[Note(step)], checkpoint_path=path)
    return (prediction["y"] for prediction in found)

  expected = {step: list(predictions(step)) for step in (2, 4)}
  ended.clear()
  pairs = zip(predictions(2), predictions(4), strict=True)
  assert all(same(zip(*pairs, strict=True), [expected[2], expected[4]]))
  assert ended == {2: 2, 4: 4}


def test_who_asks_while_another_thread_trains_is_told_what_to_do(tmp_path):
  estimator = programs.estimator(tmp_path, save_checkpoints_steps=1)
  found = []

  def hook(step, metrics, estimator):
    def evaluate():
      return estimator.evaluate(programs.examples(8))

    with futures.ThreadPoolExecutor(1) as pool:
      with pytest.raises(errors.SettingError, match="evaluate: another thread trains with the Est"):
        pool.submit(evaluate).result(60)
      begun = pool.submit(next, predictions)
      with pytest.raises(errors.SettingError, match="predict: another thread trains with the Est"):
        begun.result(60)
    found.append(evaluate()["global_step"])

  class AtTheEnd:
    def __call__(self, step, metrics, estimator):
      pass

    def end(self, step, estimator):
      hook(step, {}, estimator)

  estimator.train(programs.train_input, steps=1)
  predictions = estimator.predict(programs.examples(8))
  estimator.train(programs.train_input, [AtTheEnd()], steps=1)
  assert found == [2]
  assert estimator.evaluate(programs.examples(8))["global_step"] == 2


def network(features, labels, mode, params):
  """What asks for most of what a trace replaces: dropout, batch norm, an optimizer of Keras."""
  x = keras.layers.Dense(16, activation="relu")(features["x"])
  x = keras.layers.Dropout(0.5)(x, training=mode == ModeKeys.TRAIN)
  x = keras.layers.BatchNormalization()(x, training=mode == ModeKeys.TRAIN)
  y = keras.layers.Dense(1)(x)[:, 0]
  loss = tf.reduce_mean(tf.square(y - labels))
  train_op = trainer.minimize(keras.optimizers.SGD(0.01, momentum=0.9), loss)
  return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)


def drawing_input(params):
  """Points in an order that is drawn eagerly."""
  x, y = programs.arrays(40)
  order = tf.random.shuffle(tf.range(40))
  points = tf.data.Dataset.from_tensor_slices(({"x": tf.gather(x, order)}, tf.gather(y, order)))
  return points.shuffle(40).repeat().batch(params["batch_size"], drop_remainder=True)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cpu:2", marks=pytest.mark.long)])
def test_trainings_at_the_same_time_end_as_each_does_alone(tmp_path, device):
  meet = threading.Barrier(2)

  def values(folder, seed, model_fn=network):
    estimator = programs.estimator(tmp_path / folder, model_fn, device, tf_random_seed=seed)
    estimator.train(drawing_input, steps=6)
    loss = estimator.evaluate(programs.examples(16))["loss"]
    read = estimator.get_variable_value
    return {"loss": loss} | {name: read(name) for name in estimator.get_variable_names()}

  def together(seed):
    traces = []

    def traced(features, labels, mode, params):
      if not traces:
        meet.wait(60)
      traces.append(mode)
      return network(features, labels, mode, params)

    return values(f"together-{seed}", seed, traced)

  alone = [values(f"alone-{seed}", seed) for seed in (1, 2)]
  assert not np.array_equal(alone[0]["dense/kernel"], alone[1]["dense/kernel"])
  for found, expected in zip(in_threads(together, (1, 2)), alone, strict=True):
    assert found.keys() == expected.keys()
    assert [name for name in found if not np.array_equal(found[name], expected[name])] == []
