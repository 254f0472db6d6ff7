"""One core cuts nothing, so batches, metrics and predictions need no batch axis."""

import pytest

import trainer.compat.v1 as tf
from tests.compat import programs
from trainer import errors
from trainer.compat.v1 import estimator as tf_estimator

NODES = [[1.0], [2.0], [3.0], [4.0], [5.0]]


def model_fn(features, labels, mode):
  """Predicts w * x = x, the features' key, and trains by their number of graphs."""
  w = tf.get_variable("w", [], initializer=tf.ones_initializer())
  y = w * features["x"]
  if mode == tf_estimator.ModeKeys.PREDICT:
    return tf_estimator.EstimatorSpec(mode, predictions={"y": y, "key": features["key"]})
  count = tf.cast(tf.size(features["nodes"]), tf.float32)
  loss = tf.reduce_mean(tf.square(y - labels)) / count
  train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
  metrics = {"mse": tf.metrics.mean_squared_error(labels, y), "count": tf.metrics.mean(count)}
  return tf_estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def graphs():
  """Two graphs, of two and three nodes, and a key."""
  features = {"x": NODES, "nodes": [2, 3], "key": 7}
  return tf.data.Dataset.from_tensors((features, [[0.0]] * 5)).repeat(4)


def graphs_of_unknown_sizes():
  like = ({"x": tf.float32, "nodes": tf.int32, "key": tf.int32}, tf.float32)
  shapes = ({"x": [None, 1], "nodes": [None], "key": [None]}, [None, 1])

  def made():
    for size in (5, 3):
      yield {"x": NODES[:size], "nodes": [2, size - 2], "key": [7]}, [[0.0]] * size

  return tf.data.Dataset.from_generator(made, like, shapes)


@pytest.mark.parametrize("input_fn", [graphs, graphs_of_unknown_sizes])
def test_components_of_a_batch_may_have_other_sizes(tmp_path, input_fn):
  estimator = programs.estimator(tmp_path, fn=model_fn)
  estimator.train(input_fn, steps=2)
  found = estimator.evaluate(input_fn)
  squares = {graphs: 55 / 5, graphs_of_unknown_sizes: (55 + 14) / 8}[input_fn]
  assert found["mse"] == pytest.approx(squares)
  assert found["count"] == 2.0
  batches = list(estimator.predict(input_fn, yield_single_examples=False))
  assert batches[0]["y"].tolist() == NODES
  assert batches[0]["key"].tolist() in (7, [7])
  with pytest.raises(ValueError, match="Batch length of predictions should be same"):
    next(estimator.predict(input_fn))


def test_several_cores_refuse_batches_without_an_axis(tmp_path):
  estimator = programs.estimator(tmp_path, device="cpu:2", fn=model_fn)
  with pytest.raises(errors.InputError, match="2 cores cannot share them. Use one core"):
    estimator.train(graphs, steps=1)


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_predictions_may_be_of_words(tmp_path, device):
  def of_words(features, labels, mode):
    w = tf.get_variable("w", [], initializer=tf.ones_initializer())
    words = tf.reshape(features, [-1]) * w
    loss = tf.reduce_mean(words)
    train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
    return tf_estimator.EstimatorSpec(mode, predictions=words, loss=loss, train_op=train_op)

  def input_fn():
    rows = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]
    return tf.data.Dataset.from_tensor_slices((rows, [0] * 6)).batch(4)

  estimator = programs.estimator(tmp_path, device=device, fn=of_words)
  estimator.train(lambda: input_fn().take(1).repeat(), steps=1)
  if device == "cpu":
    assert list(map(float, estimator.predict(input_fn))) == list(map(float, range(12)))
  else:
    with pytest.raises(errors.SpecError, match="its first axis must be the batch"):
      estimator.predict(input_fn)


def test_a_tuple_of_features_needs_no_labels(tmp_path):
  def of_tuple(features, labels, mode):
    a, b = features
    assert (labels is None) == (mode == tf_estimator.ModeKeys.PREDICT)
    y = tf.get_variable("w", [], initializer=tf.ones_initializer()) * (a + b)
    loss = tf.reduce_mean(y)
    train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
    return tf_estimator.EstimatorSpec(mode, predictions=y, loss=loss, train_op=train_op)

  def train_fn():
    return tf.data.Dataset.from_tensors((([1.0, 3.0], [2.0, 4.0]), [0.0, 0.0])).repeat()

  estimator = programs.estimator(tmp_path, fn=of_tuple)
  estimator.train(train_fn, steps=1)
  found = estimator.predict(lambda: ((tf.constant([1.0, 3.0]), tf.constant([2.0, 4.0])), None))
  assert [float(next(found)), float(next(found))] == [3.0, 7.0]


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_metric_fn_gets_numbers_as_they_are(tmp_path, device):
  seen = []

  def metric_fn(labels, classes):
    seen.append(classes)
    return {"mean": tf.metrics.mean(labels)}

  def with_number(features, labels, mode, params):
    spec = programs.tpu_model_fn(features, labels, mode, params)
    return spec._replace(eval_metrics=(metric_fn, [labels, 3]))

  estimator = programs.tpu_estimator(tmp_path, device, with_number)
  estimator.train(programs.train_input_fn, max_steps=1)
  estimator.evaluate(programs.eval_input_fn)
  assert set(seen) == {3}
