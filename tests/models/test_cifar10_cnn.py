"""The CIFAR-10 CNN is the article's, to the last parameter, and trains in either precision on
one core and on eight.
"""

import functools

import keras
import pytest
import tensorflow as tf

import trainer
from models import cifar10_cnn
from tests import long
from tests.models import small_runs

tiny = functools.partial(
  cifar10_cnn.model_fn,
  filters=(4, 6),
  units=16,
  conv_dropout=0.0,
  dense_dropout=0.0,
  optimizer=functools.partial(keras.optimizers.SGD, 0.1),
)


@pytest.mark.parametrize("precision", long.except_for(["bfloat16"], ["float32", "bfloat16"]))
def test_trains_and_serves(tmp_path, precision):
  small_runs.check(tiny, *small_runs.images(16), tmp_path, steps=12, precision=precision)


def test_the_network_is_the_articles(tmp_path):
  estimator = trainer.Estimator(
    cifar10_cnn.model_fn, str(tmp_path), trainer.RunConfig(device="cpu"), eval_batch_size=8
  )
  data = tf.data.Dataset.from_tensor_slices(small_runs.images(32))
  estimator.trace("eval", lambda params: data.batch(params["batch_size"]))
  # batch norm has four values a channel, a convolution one bias a filter; 7 × 7 × 64 after 32 → 16
  # → 14 → 7
  expected = (
    4 * 3
    + (27 + 1) * 32
    + (288 + 1) * 32
    + 4 * 32
    + (288 + 1) * 64
    + (576 + 1) * 64
    + (7 * 7 * 64 + 1) * 512
    + (512 + 1) * 10
  )
  assert small_runs.parameters(estimator, "conv2d", "dense", "batch_normalization") == expected
