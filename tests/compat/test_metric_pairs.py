"""eval_metric_ops and metric_fns that are more than what one function of tf.metrics gives."""

import keras
import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests import long
from tests.compat import programs
from trainer import errors
from trainer.compat.v1 import contrib


def evaluated(tmp_path, make_ops, device="cpu", batch=20, modes=("eval",)):
  """The result of an evaluation with these eval_metric_ops, and what it should be of."""
  seen = {}

  def model_fn(features, labels, mode):
    spec = programs.model_fn(features, labels, mode)
    if mode not in modes:
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


def test_value_computed_of_several_metrics_is_of_all_batches(tmp_path):
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


@pytest.mark.parametrize(("device", "cores"), [("cpu", 1), ("cpu:2", 2)])
def test_metrics_of_rows_for_several_examples_are_counted(tmp_path, device, cores):
  def make_ops(labels, classes):
    groups = tf.reshape(labels * 3 + classes, [-1, 4])
    return {
      "mean": tf.metrics.mean(tf.reduce_max(groups, 1), tf.reduce_min(groups, 1)),
      "count": tf.metrics.true_positives(groups[:, 0] > 0, groups[:, 1] > 0),
      "first": tf.metrics.mean(tf.reshape(groups, [-1])[:3]),
    }

  result, labels, classes = evaluated(tmp_path, make_ops, device, batch=16)
  groups = (labels * 3 + classes).reshape(-1, 4)
  wanted = np.average(groups.max(1), weights=groups.min(1))
  assert result["mean"] == pytest.approx(wanted, rel=1e-6)
  assert result["count"] == ((groups[:, 0] > 0) & (groups[:, 1] > 0)).sum()
  first = groups.reshape(-1, 16 // cores)[:, :3]
  assert result["first"] == pytest.approx(first.mean(), rel=1e-6)


@pytest.mark.parametrize("device", long.except_for(["cpu:2"], ["cpu", "cpu:2"]))
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_metrics_of_unknown_rank_are_counted(tmp_path, device, rank):
  def make_ops(labels, classes):
    def of_host(values):
      return values.mean() if rank == 0 else values[values > 0].reshape([-1] + [1] * (rank - 1))

    found = tf.py_func(of_host, [tf.cast(labels * 3 + classes, tf.float64)], tf.float64)
    assert found.shape.rank is None
    return {"mean": tf.metrics.mean(found), "weighted": tf.metrics.mean(found, weight)}

  weight = tf.constant(1.0) if rank == 0 else None
  result, labels, classes = evaluated(tmp_path, make_ops, device)
  values = labels * 3 + classes
  wanted = values.mean() if rank == 0 else values[values > 0].mean()
  assert result["mean"] == pytest.approx(wanted, rel=1e-6)
  assert result["weighted"] == pytest.approx(wanted, rel=1e-6)


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


def test_metrics_of_keras_count_batches_as_in_2_15(tmp_path, caplog):
  def make_ops(labels, classes):
    error, mean = keras.metrics.MeanAbsoluteError(), tf.keras.metrics.Mean()
    error.update_state(labels, classes)
    mean.update_state(tf.reduce_mean(tf.cast(labels, tf.float32)))
    return {"error": error, "mean": mean}

  result, labels, classes = evaluated(tmp_path, make_ops, batch=17)
  of_batches = [slice(start, start + 17) for start in range(0, len(labels), 17)]
  assert len(labels) % 17
  wrong = [np.mean(labels[each] != classes[each]) for each in of_batches]
  assert result["error"] == pytest.approx(np.mean(wrong), rel=1e-6)
  assert "sizes of batches" not in caplog.text


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


def counters(collections):
  """Variables of a program's own: how many, and how many are right."""

  def make(name, shape=()):
    return tf.get_variable(
      name, shape, initializer=tf.zeros_initializer(), trainable=False, collections=collections
    )

  return make


def own_metrics(labels, classes, make):
  right, seen = make("right"), make("seen")
  table = make("table", [2, 2])
  equal = tf.cast(tf.equal(labels, classes), tf.float32)
  with tf.control_dependencies([seen.assign_add(tf.cast(tf.size(labels), tf.float32))]):
    update = tf.group(right.assign_add(tf.reduce_sum(equal)))
  counted = table.assign_add(tf.math.confusion_matrix(labels, classes, 2, dtype=tf.float32))
  positives = tf.metrics.true_positives(labels, classes)
  some = make("some").assign_add(tf.cast(tf.reduce_sum(labels * classes), tf.float32))
  return {
    "accuracy": (right / seen, update),
    "seen": (seen, update),
    "diagonal": (tf.linalg.diag_part(table), counted),
    "false_positives": (counted[0, 1], counted),
    "missed": (table[1, 1] - positives[0], tf.group(positives[1], counted)),
    "batches": ((batches := make("batches")).read_value(), batches.assign_add(1.0)),
    "some": (some, some),
  }


OWN = [("cpu", tf.GraphKeys.LOCAL_VARIABLES), ("cpu:2", tf.GraphKeys.LOCAL_VARIABLES)]
OWN += [("cpu", tf.GraphKeys.GLOBAL_VARIABLES), ("xla:2", tf.GraphKeys.LOCAL_VARIABLES)]


@pytest.mark.parametrize(("device", "collection"), long.except_for(OWN[1:3], OWN))
def test_metrics_of_variables_of_the_program_are_counted(tmp_path, device, collection):
  def make_ops(labels, classes):
    return own_metrics(labels, classes, counters([collection]))

  # Those of the graph of 2.15 are in its checkpoints, if the training makes them too.
  result, labels, classes = evaluated(tmp_path, make_ops, device, modes=("train", "eval"))
  positives = (labels * classes).sum()
  assert result["accuracy"] == pytest.approx((labels == classes).mean(), rel=1e-5)
  assert result["seen"] == len(labels)
  assert result["diagonal"].tolist() == [((1 - labels) * (1 - classes)).sum(), positives]
  assert result["false_positives"] == ((1 - labels) * classes).sum()
  assert result["missed"] == 0
  assert result["some"] == positives


def test_an_evaluation_begins_with_the_first_values_of_variables(tmp_path):
  def model_fn(features, labels, mode):
    spec = programs.model_fn(features, labels, mode)
    total = counters([tf.GraphKeys.LOCAL_VARIABLES])("total")
    update = total.assign_add(tf.cast(tf.shape(labels)[0], tf.float32))
    return spec._replace(eval_metric_ops={"total": (total, update)})

  def input_fn():
    x, y = programs.arrays()
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(20)

  estimator = programs.estimator(tmp_path, fn=model_fn)
  estimator.train(lambda: input_fn().unbatch().batch(16, drop_remainder=True), steps=1)
  seen = [estimator.evaluate(input_fn)["total"] for _ in range(2)]
  assert seen == [len(programs.arrays()[1])] * 2


def test_metrics_take_what_a_program_has_made_a_tensor(tmp_path):
  class Box:
    def __init__(self, tensor):
      self.tensor = tensor

  tf.register_tensor_conversion_function(
    Box, lambda box, dtype=None, name=None, as_ref=False: box.tensor
  )

  def make_ops(labels, classes):
    return {
      "mean": tf.metrics.mean(Box(classes)),
      "accuracy": tf.metrics.accuracy(labels, Box(labels)),
    }

  result, _, classes = evaluated(tmp_path, make_ops)
  assert result["mean"] == pytest.approx(classes.mean())
  assert result["accuracy"] == 1
