"""The convolution alone and as a model: the article's sizes, the same on eight shards as on one."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from models import conv_op
from tests import long
from tests.models import small_runs
from trainer import errors
from trainer.checkpoints import directory, reader
from trainer.devices import device as device_lib

small = functools.partial(conv_op.model_fn, filters=6, filter_size=3, classes=10)


# The next test trains filters in the gate.
@pytest.mark.parametrize("train_filters", long.except_for([False], [False, True]))
def test_trains_and_serves(tmp_path, train_filters):
  estimator, _ = small_runs.check(
    functools.partial(small, train_filters=train_filters), *small_runs.images(8), tmp_path, steps=6
  )
  assert small_runs.parameters(estimator, "convolution/filters") == 3 * 3 * 3 * 6


def test_filters_stay_as_they_were_drawn_unless_they_are_trained(tmp_path):
  values = {}
  for train_filters in (False, True):
    model_fn = functools.partial(small, train_filters=train_filters)
    path = tmp_path / str(train_filters)
    estimator = small_runs.trained(model_fn, *small_runs.images(8), path, steps=3)
    path = directory.CheckpointDirectory(str(path)).path(0)
    values[train_filters] = (
      reader.read(path, ["convolution/filters"])["convolution/filters"],
      estimator.get_variable_value("convolution/filters"),
    )
  np.testing.assert_array_equal(*values[False])
  assert np.abs(np.subtract(*values[True])).max() > 0


def test_the_articles_sizes():
  specs = tf.TensorSpec((16, 256, 256, 3)), tf.TensorSpec((5, 5, 3, 256))  # one shard of eight
  assert tf.function(conv_op.convolve).get_concrete_function(*specs).structured_outputs.shape == (
    16,
    128,
    128,
    256,
  )


def test_eight_shards_do_together_what_one_does():
  random = np.random.RandomState(0)
  images = tf.constant(random.randn(16, 9, 9, 3), tf.float32)
  filters = tf.constant(random.randn(5, 5, 3, 4), tf.float32)
  seen = []

  def computation(images, scale):
    seen.append(images.shape)
    return {"responses": conv_op.convolve(images, filters), "scaled": scale * 2}

  scale = tf.range(16.0)
  results = conv_op.batch_parallel(
    computation, [images, scale], device_lib.connect("cpu:8").strategy
  )
  np.testing.assert_allclose(
    results["responses"], conv_op.convolve(images, filters), rtol=1e-4, atol=1e-4
  )
  np.testing.assert_array_equal(results["scaled"], scale * 2)
  assert seen == [(2, 9, 9, 3)] * 8


def test_a_batch_that_cannot_be_cut_is_named():
  with pytest.raises(errors.SettingError, match="cannot cut a batch of 10 into 8 equal parts"):
    conv_op.batch_parallel(tf.identity, [tf.zeros([10, 2])], device_lib.connect("cpu:8").strategy)
