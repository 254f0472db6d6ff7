"""What programs add to canned estimators: metrics, evaluations in a training, their networks."""

import pytest

import trainer.compat.v1 as tf
from tests.compat import canned_2_15
from trainer.compat.v1 import estimator

COLUMNS = [tf.feature_column.numeric_column("age")]


def classifier(folder):
  return estimator.LinearClassifier(
    COLUMNS, model_dir=str(folder), config=estimator.RunConfig(device="cpu")
  )


def labels_that_are_one(labels, predictions, features):
  assert set(features) == {"age", "city"}
  assert "logistic" in predictions
  return {"ones": tf.metrics.mean(labels), "accuracy": tf.metrics.mean(tf.zeros_like(labels))}


def test_add_metrics(tmp_path):
  made = estimator.add_metrics(classifier(tmp_path), labels_that_are_one)
  made.train(canned_2_15.input_fn(tf, "binary"), steps=2)
  result = made.evaluate(canned_2_15.input_fn(tf, "binary", epochs=1))
  assert result["ones"] == pytest.approx(result["label/mean"])
  assert result["accuracy"] == 0.0  # in the place of the estimator's own
  assert "auc" in result


def test_a_metric_fn_takes_what_there_is(tmp_path):
  with pytest.raises(ValueError, match=r"takes \['logits'\]; expected some of \['features'"):
    estimator.add_metrics(classifier(tmp_path), lambda logits: {})


def test_forward_features(tmp_path):
  made = tf.contrib.estimator.forward_features(classifier(tmp_path), "city")
  made.train(canned_2_15.input_fn(tf, "binary"), steps=1)
  read = canned_2_15.input_fn(tf, "binary", epochs=1)
  found = list(made.predict(read))
  cities = [row["city"] for row, _ in read().unbatch().as_numpy_iterator()]
  assert [row["city"] for row in found] == cities
  assert "age" not in found[0]
  assert "logistic" in found[0]
  with pytest.raises(ValueError, match=r"\['age'\] are predictions as well as features"):
    next(
      tf.contrib.estimator.forward_features(
        tf.contrib.estimator.forward_features(classifier(tmp_path), "age"), "age"
      ).predict(read)
    )


def test_a_model_of_the_networks_of_canned_estimators(tmp_path):
  experimental = estimator.experimental
  deep = experimental.dnn_logit_fn_builder(1, [3], COLUMNS, tf.nn.relu, None, None, False)
  wide = experimental.linear_logit_fn_builder(1, COLUMNS)
  head = estimator.BinaryClassHead(
    weight_column=tf.feature_column.numeric_column("age", normalizer_fn=lambda x: 0.0 * x + 2.0)
  )

  def model_fn(features, labels, mode, config):
    logits = sum(experimental.call_logit_fn(fn, features, mode, {}, config) for fn in (deep, wide))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    return head.create_estimator_spec(features, mode, logits, labels, optimizer)

  made = estimator.Estimator(model_fn, str(tmp_path), estimator.RunConfig(device="cpu"))
  made.train(canned_2_15.input_fn(tf, "binary"), steps=2)
  names = set(made.get_variable_names())
  assert {"dnn/hiddenlayer_0/kernel", "linear/linear_model/age/weights"} <= names
  result = made.evaluate(canned_2_15.input_fn(tf, "binary", epochs=1))
  assert result["loss"] == pytest.approx(2 * result["average_loss"], rel=1e-5)  # weights of two
