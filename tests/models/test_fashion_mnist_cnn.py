import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from models import fashion_mnist_cnn
from tests.models import small_runs

ModeKeys = trainer.ModeKeys

BLOCKS = [
  ("BatchNormalization",),
  ("Conv2D", 64),
  ("MaxPooling2D",),
  ("Dropout", 0.25),
  ("BatchNormalization",),
  ("Conv2D", 128),
  ("MaxPooling2D",),
  ("Dropout", 0.25),
  ("BatchNormalization",),
  ("Conv2D", 256),
  ("MaxPooling2D",),
  ("Dropout", 0.25),
]
HEAD = [("Flatten",), ("Dense", 256, "elu"), ("Dropout", 0.5), ("Dense", 10, "linear")]


def described(layer):
  numbers = {
    "Conv2D": lambda: [layer.filters],
    "Dropout": lambda: [layer.rate],
    "Dense": lambda: [layer.units, layer.activation.__name__],
  }
  name = type(layer).__name__
  return (name, *numbers.get(name, list)())


@pytest.fixture
def model():
  inputs = keras.Input([28, 28, 1])
  return keras.Model(
    inputs, fashion_mnist_cnn.network(inputs, True, 10, (64, 128, 256), 256, 0.25, 0.5)
  )


def test_the_layers_and_their_order(model):
  assert [described(layer) for layer in model.layers[1:]] == BLOCKS + HEAD


def test_the_convolutions(model):
  for layer in model.layers:
    if isinstance(layer, keras.layers.Conv2D):
      assert (layer.kernel_size, layer.padding, layer.strides, layer.activation.__name__) == (
        (5, 5),
        "same",
        (1, 1),
        "elu",
      )
    if isinstance(layer, keras.layers.MaxPooling2D):
      assert layer.pool_size == (2, 2)


def test_the_number_of_parameters(model):
  """By hand: convolutions 5·5·in·out + out, batch norm 4·in, dense (3·3·256)·256 + 256 and
  256·10 + 10.
  """
  convolutions = sum(
    25 * below * above + above for below, above in [(1, 64), (64, 128), (128, 256)]
  )
  assert model.count_params() == convolutions + 4 * (1 + 64 + 128) + 2304 * 256 + 256 + 2570


def call(mode, batch):
  """The spec of model_fn in a graph whose batch size is static, or free as in export; and the
  graph's operations.
  """
  with tf.Graph().as_default() as graph:
    features = {"image": tf.compat.v1.placeholder(tf.float32, [batch, 28, 28, 1])}
    labels = None if mode == ModeKeys.PREDICT else tf.compat.v1.placeholder(tf.int32, [batch])
    return fashion_mnist_cnn.model_fn(features, labels, mode, {}), graph.get_operations()


@pytest.fixture(params=["float32", "mixed_bfloat16"])
def precision(request):
  keras.config.set_dtype_policy(request.param)
  yield request.param
  keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize("batch", [None, 3])
def test_predictions(precision, batch):
  spec, operations = call(ModeKeys.PREDICT, batch)
  predictions = {
    name: (tensor.dtype, tensor.shape.as_list()) for name, tensor in spec.predictions.items()
  }
  assert predictions["class"] == (tf.int32, [batch])
  assert predictions["probabilities"] == (tf.float32, [batch, 10])
  convolutions = {op.outputs[0].dtype for op in operations if op.type == "Conv2D"}
  assert convolutions == {tf.float32 if precision == "float32" else tf.bfloat16}


def test_evaluation(precision):
  spec, _ = call(ModeKeys.EVAL, 3)
  assert (spec.loss.dtype, spec.loss.shape.rank) == (tf.float32, 0)
  metric_fn, tensors = spec.eval_metrics
  metrics = metric_fn(
    **{name: tf.zeros(tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
  )
  assert set(metrics) == {"accuracy"}


def test_only_training_drops_and_uses_the_batch_statistics():
  images = tf.constant(np.random.RandomState(0).rand(4, 28, 28, 1), tf.float32)

  def logits(batch, training):
    keras.utils.set_random_seed(1)
    return fashion_mnist_cnn.network(batch, training, 10, (4, 4, 4), 8, 0.25, 0.5).numpy()

  np.testing.assert_allclose(
    logits(images[:1], False), logits(images, False)[:1], rtol=1e-4, atol=1e-5
  )
  assert not np.allclose(logits(images[:1], True), logits(images, True)[:1], rtol=1e-2)


def test_it_trains_evaluates_predicts_and_exports(tmp_path):
  small = functools.partial(
    fashion_mnist_cnn.model_fn, filters=(4, 4), units=8, optimizer=keras.optimizers.SGD
  )
  small_runs.check(small, *small_runs.images(28, channels=1), tmp_path, falls=False)
