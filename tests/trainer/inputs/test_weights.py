"""Weights of examples reach the model_fn as Keras's do, and those that cannot fit are named."""

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer.inputs import devices
from trainer import errors, run_config, spec
from trainer.inputs import decodable, feeder

LABELS = np.array([0, 0, 0, 1, 2, 2], np.int32)
BATCH = 6


def dataset_of(labels, *weights, **features):
  features = {"x": np.arange(BATCH, dtype=np.float32), **features}
  return tf.data.Dataset.from_tensor_slices((features, labels, *weights)).batch(
    BATCH, drop_remainder=True
  )


def fed(dataset, kind="train", **config):
  """The only batch of a dataset, as a device loop reads it."""
  feed = feeder.Feeder(
    devices.Device(), lambda kind: BATCH, run_config.RunConfig(**config), params={}
  )
  return next(iter(feed.batches(kind, lambda: dataset)[0]))


def test_the_third_part_of_an_element_has_the_weights():
  weights = np.linspace(0, 1, 6).astype(np.float64)
  found = fed(dataset_of(LABELS, weights))
  assert found[2].dtype == tf.float32
  np.testing.assert_allclose(found[2], weights, rtol=1e-6)


def test_a_class_has_a_weight_in_training_alone():
  class_weight = {1: 5.0, 2: 0.5}
  found = fed(dataset_of(LABELS), class_weight=class_weight)
  np.testing.assert_array_equal(found[2], [1, 1, 1, 5, 0.5, 0.5])
  assert len(fed(dataset_of(LABELS), "eval", class_weight=class_weight)) == 2


def test_both_weights_are_multiplied():
  found = fed(dataset_of(LABELS, np.float32([1, 2, 3, 4, 5, 6])), class_weight={1: 5.0})
  np.testing.assert_array_equal(found[2], [1, 2, 3, 20, 5, 6])


def test_balanced_weights_are_those_of_scikit_learn():
  from sklearn.utils import class_weight

  dataset = trainer.mark_labels(dataset_of(LABELS), LABELS)
  found = fed(dataset, class_weight="balanced")
  np.testing.assert_allclose(
    found[2], class_weight.compute_sample_weight("balanced", LABELS), rtol=1e-6
  )


@pytest.mark.parametrize(
  "labels, expected",
  [
    (np.eye(3, dtype=np.float32)[LABELS], [1, 1, 1, 5, 1, 1]),
    (LABELS[:, None], [[1], [1], [1], [5], [1], [1]]),
    (np.float32([0, 1, 0, 1, 0, 0]), [1, 5, 1, 5, 1, 1]),
    (np.tile(LABELS[:, None, None], [1, 2, 1]), np.tile([[[1]]] * 3 + [[[5]]] + [[[1]]] * 2, 2)),
  ],
  ids=["one-hot", "a column", "yes or no", "pixels"],
)
def test_labels_of_each_form_have_the_weight_of_their_class(labels, expected):
  found = fed(dataset_of(labels), class_weight={1: 5.0})[2]
  np.testing.assert_array_equal(found, np.reshape(expected, found.shape))


def test_a_feature_has_the_weights_and_the_model_does_not_get_it():
  weights = np.float32([1, 2, 3, 4, 5, 6])
  dataset = dataset_of(LABELS, weight=weights)
  features, _, found = fed(dataset, "eval", weight_column="weight")
  np.testing.assert_array_equal(found, weights)
  assert list(features) == ["x"]
  assert list(fed(dataset, "predict", weight_column="weight")[0]) == ["x"]


def test_an_export_does_not_ask_for_the_weights():
  columns = {"a": [1.0], "w": [2.0]}
  dataset = decodable.mark_raw(
    dataset_of(LABELS, w=np.ones(6)), columns, lambda given: {"x": given["a"], "w": given["w"]}
  )
  feed = feeder.Feeder(
    devices.Device(), lambda kind: BATCH, run_config.RunConfig(weight_column="w"), params={}
  )
  changed, _ = feed.batches("eval", lambda: dataset)
  raw = decodable.raw_of(changed)
  assert list(raw.to_features({name: tf.constant(v) for name, v in columns.items()})) == ["x"]


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_weight_that_is_none_is_found_when_it_is_read(weight):
  with pytest.raises(tf.errors.InvalidArgumentError, match="negative, infinite or no number"):
    fed(dataset_of(LABELS, np.float32([1, 1, weight, 1, 1, 1])))


@pytest.mark.parametrize(
  "make, config, message",
  [
    (
      lambda: trainer.mark_labels(dataset_of(LABELS), LABELS),
      {"class_weight": {0: 1.0, 3: 2.0}},
      "has the class 3, and the train input_fn .* has 3 classes, 0 to 2",
    ),
    (
      lambda: dataset_of(LABELS),
      {"class_weight": "balanced"},
      "does not say how often .*mark_labels",
    ),
    (
      lambda: dataset_of(LABELS, wieght=np.ones(6)),
      {"weight_column": "weight"},
      "gives no such feature: expected 'wieght'",
    ),
    (
      lambda: dataset_of(LABELS, np.ones(6), weight=np.ones(6)),
      {"weight_column": "weight"},
      "already gives weights",
    ),
    (lambda: dataset_of(LABELS, np.ones([6, 4])), {}, r"shape \(6, 4\), and the labels \(6,\)"),
    (lambda: dataset_of(LABELS, np.array(["a"] * 6)), {}, "of string; expected numbers"),
    (lambda: dataset_of({"a": LABELS}), {"class_weight": {1: 2.0}}, "gives none, or several"),
  ],
)
def test_weights_that_cannot_fit_are_named_before_any_read(make, config, message):
  with pytest.raises(errors.SettingError, match=message):
    fed(make(), **config)


@pytest.mark.parametrize("value", [{0: -1.0}, {0: float("nan")}, {-1: 1.0}, {}, "even", {"a": 1.0}])
def test_a_class_weight_that_is_none_is_refused(value):
  with pytest.raises(errors.SettingError, match="RunConfig.class_weight is .*expected"):
    run_config.RunConfig(class_weight=value)


def test_labels_that_are_no_classes_cannot_be_marked():
  with pytest.raises(errors.SettingError, match="expected an integer for each example"):
    trainer.mark_labels(dataset_of(LABELS), np.ones(3))


def test_a_model_fn_that_takes_no_weights_is_named():
  def model_fn(features, labels, mode):
    raise AssertionError

  with pytest.raises(
    errors.SettingError, match="does not take 'sample_weight'.*sample_weight=None"
  ):
    spec.ModelFn(model_fn)({}, None, "train", {}, None, sample_weight=tf.ones([2]))


def test_weights_without_labels_are_refused():
  dataset = tf.data.Dataset.from_tensors(0.0).map(
    lambda x: (tf.ones([BATCH]), None, tf.ones(BATCH))
  )
  with pytest.raises(errors.SpecError, match="sample_weight and no labels"):
    fed(dataset)
