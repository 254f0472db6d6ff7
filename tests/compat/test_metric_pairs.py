"""eval_metric_ops and metric_fns that are more than what one function of tf.metrics gives."""

import keras
import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests import long
from tests.compat import programs
from trainer import errors
from trainer.compat.v1 import contrib


def evaluated(tmp_path, make_ops, device="cpu", batch=20):
  """The result of an evaluation with these eval_metric_ops, and what it should be of."""
  seen = {}

  def model_fn(features, labels, mode):
    spec = programs.model_fn(features, labels, mode)
    if mode != "eval":
      return spec
    classes = tf.cast(features["x"][:, 0] > 0, tf.int32)
    return spec._replace(eval_metric_ops=make_ops(tf.cast(labels > 0, tf.int32), classes))

  def input_fn():
    x, y = programs.arrays()
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(batch)

  estimator = programs.estimator(tmp_path, device, fn=model_fn)
  estimator.train(lambda: input_fn().unbatch().batch(16, drop_remainder=True), steps=1)
  x, y = programs.arrays()
  seen = np.array(y > 0, int), np.array(x[:, 0] > 0, int)
  return estimator.evaluate(input_fn), *seen


def test_what_is_computed_of_several_metrics_is_that_of_all_batches(tmp_path):
  def make_ops(labels, classes):
    precision, recall = tf.metrics.precision(labels, classes), tf.metrics.recall(labels, classes)
    f1 = tf.div_no_nan(2.0 * precision[0] * recall[0], precision[0] + recall[0])
    true, true_op = tf.metrics.true_positives(labels, classes)
    return {
      "f1": (f1, tf.group(precision[1], recall[1])),
      "precision": precision,
      "percent": (100.0 * precision[0], precision[1]),
      "renamed": (true, true_op),
    }

  result, labels, classes = evaluated(tmp_path, make_ops)
  right = float((labels * classes).sum())
  precision, recall = right / classes.sum(), right / labels.sum()
  assert result["precision"] == pytest.approx(precision, rel=1e-5)
  assert result["percent"] == pytest.approx(100 * precision, rel=1e-5)
  assert result["f1"] == pytest.approx(2 * precision * recall / (precision + recall), rel=1e-5)
  assert result["renamed"] == right


@pytest.mark.parametrize("device", long.except_for(["cpu:2"], ["cpu", "cpu:2"]))
def test_metrics_of_masked_rows_are_counted(tmp_path, device):
  def make_ops(labels, classes):
    mask = classes > 0
    rows = tf.boolean_mask(tf.stack([labels, labels], 1), mask)
    return {
      "accuracy": tf.metrics.accuracy(tf.boolean_mask(labels, mask), rows[:, 1]),
      "mean": tf.metrics.mean(rows),
      "none": tf.metrics.mean(tf.boolean_mask(labels, labels > 1)),
    }

  result, labels, classes = evaluated(tmp_path, make_ops, device)
  assert result["mean"] == pytest.approx(labels[classes > 0].mean(), rel=1e-5)
  assert (result["accuracy"], result["none"]) == (1, 0)


@pytest.mark.parametrize("device", long.except_for(["cpu:2"], ["cpu", "cpu:2"]))
def test_metrics_of_keras_are_counted(tmp_path, device):
  def make_ops(labels, classes):
    accuracy, mean = keras.metrics.Accuracy(), tf.keras.metrics.Mean()
    accuracy.update_state(labels, classes)
    mean.update_state(tf.cast(classes, tf.float32))
    return {"accuracy": accuracy, "mean": mean}

  result, labels, classes = evaluated(tmp_path, make_ops, device)
  assert result["accuracy"] == pytest.approx((labels == classes).mean())
  assert result["mean"] == pytest.approx(classes.mean())


def test_a_metric_fn_computes_with_values_after_the_last_batch(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.tpu_model_fn(features, labels, mode, params)

    def metric_fn(labels, x):
      positives, update = tf.metrics.true_positives(labels, x)
      _, count_op = contrib.metrics.streaming_mean(tf.ones_like(x))
      return {"twice": (2 * positives, tf.group(update, count_op)), "all": streamed(x)}

    streamed = contrib.metrics.streaming_concat
    return spec._replace(eval_metrics=(metric_fn, [labels > 0, features["x"][:, 0] > 0]))

  estimator = programs.tpu_estimator(tmp_path, fn=model_fn)
  estimator.train(programs.train_input_fn, steps=1)
  result = estimator.evaluate(programs.eval_input_fn)
  x, y = programs.arrays()
  assert result["twice"] == 2 * ((x[:, 0] > 0) & (y > 0)).sum()
  assert result["all"].tolist() == (x[:, 0] > 0).tolist()


def test_a_value_that_is_of_the_batch_alone_is_refused(tmp_path):
  def make_ops(labels, classes):
    value, update = tf.metrics.mean(classes)
    return {"mixed": (value + tf.reduce_sum(tf.cast(labels, tf.float32)), update)}

  with pytest.raises(errors.SpecError, match=r"eval_metric_ops\['mixed'\] depends on"):
    evaluated(tmp_path, make_ops)
