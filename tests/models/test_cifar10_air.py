"""The network that starts from whitened patches: its first layer, first values and training."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from models import cifar10_air
from tests.models import small_runs
from trainer import errors

# Neighbours are alike, as in photos.
PHOTOS = np.random.RandomState(0).randn(100, 8, 8, 3).cumsum(1).cumsum(2).astype(np.float32)
PHOTOS = (PHOTOS - PHOTOS.mean()) / PHOTOS.std()


def photos(params):
  return tf.data.Dataset.from_tensors(({"image": PHOTOS}, np.zeros([100], np.int32)))


tiny = functools.partial(
  cifar10_air.model_fn,
  images=photos,
  filters=(24, 8),
  optimizer=functools.partial(keras.optimizers.SGD, 0.05, momentum=0.85, nesterov=True),
  weight_decay=1e-3,
  bias_decay=1e-5,
)


def test_patches_are_whitened():
  filters = cifar10_air._whitening(PHOTOS)
  assert filters.shape == (12, 24)
  patches = [
    PHOTOS[:, row : row + 2, column : column + 2].reshape(100, 12)
    for row in range(7)
    for column in range(7)
  ]
  outputs = np.concatenate(patches) @ filters[:, :12]
  # The variances of the patches are far above what is added to them.
  np.testing.assert_allclose(outputs.T @ outputs / len(outputs), np.eye(12), atol=0.15)
  np.testing.assert_array_equal(filters[:, 12:], -filters[:, :12])


def test_a_convolution_begins_with_what_it_is_given():
  kernel = cifar10_air._Identity()((3, 3, 4, 6), "float32").numpy()
  image = np.random.RandomState(1).rand(1, 5, 5, 4).astype(np.float32)
  outputs = tf.nn.conv2d(image, kernel, 1, "SAME").numpy()
  np.testing.assert_array_equal(outputs[..., :4], image)
  assert 0 < np.abs(kernel[..., 4:]).max() <= 1 / np.sqrt(4 * 9)


def test_trains_and_serves(tmp_path):
  features, labels = small_runs.images(16)
  features = {"image": 4 * features["image"] - 2}
  estimator, _ = small_runs.check(tiny, features, labels, tmp_path, steps=8)
  variables = estimator.variables
  kernel = variables["whiten/kernel"].numpy().reshape(12, 24)
  np.testing.assert_array_equal(kernel, cifar10_air._whitening(PHOTOS))
  assert variables["whiten/bias"].numpy().any()
  assert small_runs.parameters(estimator, "whiten", "conv2d", "batch_norm", "dense") == (
    12 * 24 + 24  # the first layer
    + 9 * (24 * 24 + 24 * 24 + 24 * 8 + 8 * 8)
    + 3 * 2 * (24 + 8)
    + 8 * 10
  )  # fmt: skip


@pytest.mark.parametrize("synchronized", [False, True])
def test_batch_norm_uses_the_global_batch_on_request(synchronized):
  network = cifar10_air.Network(10, (24, 8, 8), photos, synchronized)
  assert [layer.synchronized for layer in network._norms] == 6 * [synchronized]


def test_the_images_of_the_first_layer_are_asked_for():
  with pytest.raises(errors.SettingError, match="Set cifar10_air.model_fn.images"):
    cifar10_air.model_fn({"image": tf.zeros([2, 32, 32, 3])}, None, "infer", {})
