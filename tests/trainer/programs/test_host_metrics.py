"""eval_metrics against numpy and scikit-learn, in all the ways that a metric_fn may give them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.programs import host_metrics as metrics

v1 = tf.compat.v1
COUNT = 43


def update(metric_fn, *batches):
  """The results after counting batches, each a list or dict of arrays."""
  host_metrics = metrics.HostMetrics()

  @tf.function(autograph=False)
  def count(tensors):
    return metrics.read(host_metrics.update(metric_fn, tensors))

  for batch in batches:
    results = count(tf.nest.map_structure(tf.constant, batch))
  return {name: value.numpy() for name, value in results.items()}, host_metrics, count


def data():
  random = np.random.RandomState(3)
  scores = random.rand(COUNT).astype(np.float32)
  return (random.rand(COUNT) < scores).astype(np.int32), scores


def batches_of(*arrays, sizes=(20, 20, 3)):
  starts = np.cumsum((0, *sizes))
  return [
    [array[start : start + size] for array in arrays]
    for start, size in zip(starts, sizes, strict=False)
  ]


def keras_fn(labels, scores):
  auc, accuracy = keras.metrics.AUC(num_thresholds=2000), keras.metrics.BinaryAccuracy()
  auc.update_state(labels, scores)
  accuracy.update_state(labels[:, None], scores[:, None])
  return {"auc": auc, "accuracy": accuracy}


def v1_fn(labels, scores):
  return {
    "auc": v1.metrics.auc(labels, scores, num_thresholds=2000),
    "accuracy": v1.metrics.accuracy(labels, tf.cast(scores > 0.5, tf.int32)),
  }


@pytest.mark.parametrize("metric_fn", [keras_fn, v1_fn])
def test_metrics_over_batches_are_those_of_all_examples(metric_fn):
  from sklearn import metrics as reference

  labels, scores = data()
  found, _, _ = update(metric_fn, *batches_of(labels, scores))
  assert found["accuracy"] == pytest.approx(np.mean(labels == (scores > 0.5)), abs=1e-6)
  assert found["auc"] == pytest.approx(reference.roc_auc_score(labels, scores), abs=2e-3)


def test_keras_and_v1_metrics_may_be_mixed():
  def metric_fn(labels, scores):
    return {"auc": keras_fn(labels, scores)["auc"], "mean": v1.metrics.mean(scores)}

  labels, scores = data()
  found, _, _ = update(metric_fn, *batches_of(labels, scores))
  assert found["mean"] == pytest.approx(scores.mean(), abs=1e-6)
  assert set(found) == {"auc", "mean"}


def test_a_v1_metric_whose_update_is_something_else():
  """The update of mean_iou is a confusion matrix."""

  def metric_fn(labels, classes):
    return {"iou": v1.metrics.mean_iou(labels, classes, 2)}

  labels, scores = data()
  classes = (scores > 0.5).astype(np.int32)
  both = [
    np.mean((labels == value) & (classes == value))
    / np.mean((labels == value) | (classes == value))
    for value in (0, 1)
  ]
  found, _, _ = update(metric_fn, *batches_of(labels, classes))
  assert found["iou"] == pytest.approx(np.mean(both), abs=1e-6)


def test_a_metric_may_be_an_array():
  def metric_fn(labels, scores):
    return {"recall": v1.metrics.recall_at_thresholds(labels, scores, [0.25, 0.5])}

  labels, scores = data()
  found, _, _ = update(metric_fn, *batches_of(labels, scores))
  np.testing.assert_allclose(
    found["recall"],
    [np.mean(scores[labels == 1] > threshold) for threshold in (0.25, 0.5)],
    atol=1e-5,
  )


def test_two_metrics_of_one_class_count_apart():
  def metric_fn(a, b):
    first, second = keras.metrics.Mean(), keras.metrics.Mean()
    first.update_state(a)
    second.update_state(b)
    return {"a": first, "b": second, "v1_a": v1.metrics.mean(a), "v1_b": v1.metrics.mean(b)}

  a, b = np.float32([1, 2, 3]), np.float32([10, 20, 60])
  found, _, _ = update(metric_fn, [a, b], [a + 1, b])
  assert found == pytest.approx({"a": 2.5, "b": 30, "v1_a": 2.5, "v1_b": 30})


def test_reset_starts_anew():
  first, *others = batches_of(*data())
  _, host_metrics, count = update(keras_fn, *others)
  host_metrics.reset()
  again = count([tf.constant(array) for array in first])
  assert {name: value.numpy() for name, value in again.items()} == update(keras_fn, first)[0]


def test_no_metrics():
  found, _, _ = update(None, {})
  assert found == {}


@pytest.mark.parametrize(
  "returned, message",
  [
    ({"a": tf.constant(1.0)}, "'a' must be a Keras metric or a tf.compat.v1.metrics pair"),
    ({"a": 0.5}, "'a' must be a Keras metric"),
    (None, "must return a dict of name → metric; it returned NoneType"),
    ([1, 2], "it returned list"),
  ],
)
def test_what_is_no_metric(returned, message):
  with pytest.raises(errors.SpecError, match=message):
    update(lambda a: returned, [np.float32([1])])


@pytest.mark.parametrize("name", ["loss", "global_step"])
def test_reserved_names(name):
  def metric_fn(labels, scores):
    return {name: keras_fn(labels, scores)["auc"]}

  with pytest.raises(errors.SettingError, match="rename the metric"):
    update(metric_fn, *batches_of(*data()))


# --------------------------------------------------------------- an evaluation


def scored(metric_fn, tensors):
  """A model_fn whose scores are a feature."""

  def model_fn(features, labels, mode, params):
    w = tf.Variable(1.0, name="w")
    loss = tf.reduce_mean(tf.square(w * features - tf.cast(labels, tf.float32)))
    if mode == trainer.ModeKeys.EVAL:
      return trainer.EstimatorSpec(
        mode, loss=loss, eval_metrics=(metric_fn, tensors(labels, features))
      )
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.01), loss)
    )

  return model_fn


def _input_fn(params):
  labels, scores = data()
  return tf.data.Dataset.from_tensor_slices((scores, labels)).batch(params["batch_size"])


@pytest.mark.parametrize(
  "metric_fn, tensors, on",
  [
    (keras_fn, lambda labels, scores: {"scores": scores, "labels": labels}, "cpu:2"),
    (v1_fn, lambda labels, scores: [labels, scores], "cpu"),
  ],
  ids=["dict", "list"],
)
def test_an_evaluation_has_the_metrics_of_all_examples(metric_fn, tensors, on, tmp_path):
  labels, scores = data()
  wanted, _, _ = update(metric_fn, *batches_of(labels, scores))
  estimator = programs.estimator(tmp_path, scored(metric_fn, tensors), on, batch_size=16)
  estimator.train(
    lambda params: (
      _input_fn(params).unbatch().repeat().batch(params["batch_size"], drop_remainder=True)
    ),
    steps=1,
  )
  for _ in range(2):  # what was counted before does not count again
    result = estimator.evaluate(_input_fn)
    assert {name: result[name] for name in wanted} == pytest.approx(
      {name: float(value) for name, value in wanted.items()}, abs=1e-6
    )


def test_an_evaluation_without_metrics_has_a_loss(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    spec.eval_metrics = None
    return spec

  result = (
    programs.estimator(tmp_path, model_fn)
    .train(programs.train_input, steps=1)
    .evaluate(programs.examples(11))
  )
  assert set(result) == {"loss", "global_step"}


def test_a_metric_fn_that_raises_is_named_with_what_it_was_given():
  def clumsy(labels, scores):
    return {"ratio": labels / scores}

  with pytest.raises(
    errors.ModelFnError,
    match=r'clumsy failed, given tensors\["labels"\] '
    r'int32\[3\], tensors\["scores"\] float32\[3\]: '
    r"TypeError",
  ):
    update(clumsy, {"labels": np.zeros(3, np.int32), "scores": np.zeros(3, np.float32)})


# --------------------------------------------------------------- dependence on batches


class MeanOfMeans(keras.metrics.Metric):
  """A user's metric that counts a batch as one."""

  def __init__(self, **kwargs):
    super().__init__(**kwargs)
    self.sum, self.batches = (self.add_weight(initializer="zeros", name=n) for n in ("sum", "n"))

  def update_state(self, values):
    self.sum.assign_add(tf.reduce_mean(values))
    self.batches.assign_add(1)

  def result(self):
    return self.sum / self.batches


def updated(metric, *arguments):
  metric.update_state(*arguments)
  return metric


OF_BATCHES = {
  "v1": lambda labels, scores: v1.metrics.mean(tf.reduce_mean(scores)),
  "v1_accuracy": lambda labels, scores: v1.metrics.mean(
    tf.reduce_mean(tf.cast(labels == tf.cast(scores > 0.5, tf.int32), tf.float32))
  ),
  "root": lambda labels, scores: updated(keras.metrics.Mean(), tf.sqrt(tf.reduce_mean(scores))),
  "own": lambda labels, scores: updated(MeanOfMeans(), scores),
  "vector": lambda labels, scores: updated(keras.metrics.KLDivergence(), scores, 1 - scores),
  "row": lambda labels, scores: updated(
    keras.metrics.MeanSquaredError(), tf.cast(labels, tf.float32)[None], scores[None]
  ),
  "dice": lambda labels, scores: updated(
    keras.metrics.MeanMetricWrapper(keras.losses.dice), labels, scores
  ),
}


@pytest.mark.parametrize("kind", OF_BATCHES)
def test_a_metric_that_averages_batches_is_told(kind, caplog):
  def metric_fn(labels, scores):
    return {f"of_{kind}": OF_BATCHES[kind](labels, scores), **keras_fn(labels, scores)}

  update(metric_fn, *batches_of(*data()))
  (told,) = [record.getMessage() for record in caplog.records if "sizes" in record.getMessage()]
  assert f"the metric 'of_{kind}' depends on the sizes of batches" in told
  assert "Update it with a value of each example" in told


@pytest.mark.parametrize("metric_fn", [keras_fn, v1_fn])
def test_a_metric_of_examples_is_not_told(metric_fn, caplog):
  update(metric_fn, *batches_of(*data()))
  assert "sizes of batches" not in caplog.text


def test_a_function_of_python_sees_no_random_examples():
  seen = []

  def metric_fn(labels, scores):
    count = tf.numpy_function(
      lambda x: seen.append(len(x)) or np.float32(len(x)), [scores], "float32"
    )
    return {"count": updated(keras.metrics.Sum(), tf.ensure_shape(count, []))}

  found, _, _ = update(metric_fn, *batches_of(*data()))
  assert found["count"] == COUNT
  assert seen == [20, 20, 3]


def test_a_metric_fn_that_refuses_random_examples_counts():
  def metric_fn(labels, scores):
    with tf.control_dependencies([v1.assert_less(scores, 0.01)]):
      return {"mean": updated(keras.metrics.Mean(), tf.identity(scores))}

  labels, scores = data()
  found, _, _ = update(metric_fn, *batches_of(labels, scores / 1000))
  assert found["mean"] == pytest.approx(scores.mean() / 1000, rel=1e-6)


def test_a_float32_count_of_2_to_the_24_is_told(caplog):
  def metric_fn(values, weights):
    return {"accuracy": v1.metrics.mean(values, weights)}

  values = np.float32([0, 1e9, 1])
  for weight, told in ((1, False), (2.0**24, True)):
    _, host_metrics, _ = update(metric_fn, [values, np.float32([weight, 1, 1])])
    host_metrics.warn_of_large_counts()
    assert ("mean/count has reached 16,777,216, up to which float32" in caplog.text) == told
