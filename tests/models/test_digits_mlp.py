import functools
import pathlib

import gin
import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from models import digits_mlp
from tests.models import small_runs

ModeKeys = trainer.ModeKeys


@pytest.fixture(params=["float32", "mixed_bfloat16"])
def precision(request):
  keras.config.set_dtype_policy(request.param)
  yield request.param
  keras.config.set_dtype_policy("float32")


def call(mode, batch=None, **kwargs):
  """The spec of model_fn in a graph whose batch size is static, or free as in export."""
  specs = []

  def build():
    features = {"image": tf.compat.v1.placeholder(tf.float32, [batch, 8, 8, 1])}
    labels = None if mode == ModeKeys.PREDICT else tf.compat.v1.placeholder(tf.int32, [batch])
    specs.append(digits_mlp.model_fn(features, labels, mode, {}, **kwargs))

  with tf.Graph().as_default():
    build()
  return specs[0]


@pytest.mark.parametrize("batch", [None, 6])
def test_predictions(precision, batch):
  predictions = call(ModeKeys.PREDICT, batch).predictions
  assert {name: (tensor.dtype, tensor.shape.as_list()) for name, tensor in predictions.items()} == {
    "class": (tf.int32, [batch]),
    "probabilities": (tf.float32, [batch, 10]),
  }


def test_evaluation(precision):
  spec = call(ModeKeys.EVAL, 6)
  assert spec.loss.dtype == tf.float32
  assert spec.loss.shape.rank == 0
  _, tensors = spec.eval_metrics
  assert {name: tensor.shape[0] for name, tensor in tensors.items()} == {"labels": 6, "classes": 6}


def test_the_loss_is_that_of_the_probabilities():
  random = np.random.RandomState(0)
  features = {"image": tf.constant(random.rand(6, 8, 8, 1), tf.float32)}
  labels = random.randint(0, 10, 6).astype(np.int32)
  specs = {}
  for mode in (ModeKeys.PREDICT, ModeKeys.EVAL):
    keras.utils.set_random_seed(1)  # the same weights in both calls
    specs[mode] = digits_mlp.model_fn(features, labels, mode, {})
  probabilities = specs[ModeKeys.PREDICT].predictions["probabilities"].numpy()
  np.testing.assert_allclose(probabilities.sum(-1), 1, rtol=1e-5)
  np.testing.assert_array_equal(
    specs[ModeKeys.PREDICT].predictions["class"], probabilities.argmax(-1)
  )
  np.testing.assert_allclose(
    specs[ModeKeys.EVAL].loss, -np.log(probabilities[np.arange(6), labels]).mean(), rtol=1e-5
  )


def test_it_learns_evaluates_predicts_and_exports(tmp_path):
  small_runs.check(digits_mlp.model_fn, *small_runs.images(8, channels=1), tmp_path, steps=20)


def test_the_knobs_turn():
  inputs = keras.Input([8, 8, 1])
  model = keras.Model(inputs, digits_mlp.network(inputs, True, (20, 30, 40), 0.3))
  dense = [layer.units for layer in model.layers if isinstance(layer, keras.layers.Dense)]
  dropout = [layer.rate for layer in model.layers if isinstance(layer, keras.layers.Dropout)]
  assert dense == [20, 30, 40, 10]
  assert dropout == [0.3, 0.3, 0.3]


def test_dropout_is_for_training_only():
  images = tf.ones([4, 8, 8, 1])

  def logits(training):
    keras.utils.set_random_seed(1)
    return digits_mlp.network(images, training, (64,), 0.5).numpy()

  np.testing.assert_array_equal(logits(False)[0], logits(False)[1])
  assert (logits(True)[0] != logits(True)[1]).any()


def test_accuracy():
  accuracy = digits_mlp.metric_fn(
    labels=tf.constant([1, 2, 3, 4]), classes=tf.constant([1, 2, 3, 0])
  )["accuracy"]
  assert float(accuracy.result()) == 0.75


def test_gin_binds_the_knobs():
  gin.parse_config("digits_mlp.model_fn.hidden_units = (7,)")
  with tf.Graph().as_default() as graph:
    digits_mlp.model_fn({"image": tf.zeros([2, 8, 8, 1])}, None, ModeKeys.PREDICT, {})
  assert [64, 7] in [
    op.outputs[0].shape.as_list()
    for op in graph.get_operations()
    if op.outputs and op.outputs[0].shape.rank == 2
  ]


def test_it_is_short_enough_to_copy():
  assert len(pathlib.Path(digits_mlp.__file__).read_text().splitlines()) <= 100


def test_labels_are_smoothed_in_training_alone(tmp_path):
  features, labels = small_runs.images(8, channels=1)
  features, labels = {"image": features["image"][:8]}, labels[:8]

  def input_fn(params):
    return tf.data.Dataset.from_tensors((features, labels))

  model_fn = functools.partial(digits_mlp.model_fn, dropout=0.0, label_smoothing=0.3)
  estimator = trainer.Estimator(
    model_fn, str(tmp_path), trainer.RunConfig(device="cpu"), train_batch_size=8, eval_batch_size=8
  )
  losses = []
  estimator.train(
    input_fn, max_steps=1, hooks=[lambda step, metrics, _: losses.append(metrics["loss"])]
  )
  start = str(tmp_path / "model.ckpt-0")
  logs = np.log(
    [
      prediction["probabilities"]
      for prediction in estimator.predict(input_fn, checkpoint_path=start)
    ]
  )
  hot = np.eye(10)[labels]
  assert losses == pytest.approx([-np.mean(np.sum(logs * (0.7 * hot + 0.03), -1))], rel=1e-5)
  assert estimator.evaluate(input_fn, checkpoint_path=start)["loss"] == pytest.approx(
    -np.mean(np.sum(logs * hot, -1)), rel=1e-5
  )
