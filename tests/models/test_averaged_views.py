"""Several views of an image, whose logits are averaged in evaluation, prediction and exports."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from models import averaged_views, cifar10_cnn
from tests.models import small_runs
from trainer import errors

IMAGES = np.random.RandomState(0).rand(5, 6, 4, 3).astype(np.float32)
WEIGHTS = np.random.RandomState(1).rand(6 * 4 * 3, 7).astype(np.float32)


def network(image, training):
  flat = tf.reshape(image, [-1, 6 * 4 * 3])
  return tf.matmul(flat, WEIGHTS) * (2.0 if training else 1.0)


def of(images):
  return images.reshape(len(images), -1) @ WEIGHTS


def logits(mode, views):
  return averaged_views.logits(network, tf.constant(IMAGES), mode, views).numpy()


def moved(down, right):
  padded = np.pad(IMAGES, [(0, 0), (1, 1), (1, 1), (0, 0)], "reflect")
  return padded[:, 1 - down : 7 - down, 1 - right : 5 - right]


def both(images):
  return (of(images) + of(images[:, :, ::-1])) / 2


WANTED = {
  "one": of(IMAGES),
  "mirror": both(IMAGES),
  "mirror and translate": both(IMAGES) / 2 + (both(moved(1, 1)) + both(moved(-1, -1))) / 4,
}


@pytest.mark.parametrize("mode", [trainer.ModeKeys.EVAL, trainer.ModeKeys.PREDICT])
@pytest.mark.parametrize("views", WANTED)
def test_the_mean_of_the_views(mode, views):
  np.testing.assert_allclose(logits(mode, views), WANTED[views], rtol=1e-5)


def test_training_sees_the_image_alone():
  found = logits(trainer.ModeKeys.TRAIN, "mirror and translate")
  np.testing.assert_allclose(found, 2 * of(IMAGES), rtol=1e-5)


@pytest.mark.parametrize("mode", [trainer.ModeKeys.EVAL, trainer.ModeKeys.TRAIN])
def test_unknown_views(mode):
  with pytest.raises(
    errors.SettingError, match="model_fn.views is 'two': expected 'one', 'mirror'"
  ):
    logits(mode, "two")


def test_mirrored_images_are_classified_alike_also_by_exports(tmp_path):
  model_fn = functools.partial(
    cifar10_cnn.model_fn, filters=(4, 6), units=8, views="mirror", optimizer=keras.optimizers.SGD
  )
  features, labels = small_runs.images(16)
  estimator, _ = small_runs.check(model_fn, features, labels, tmp_path, falls=False)

  def probabilities(image):
    data = lambda params: tf.data.Dataset.from_tensor_slices({"image": image}).batch(8)
    return np.stack([each["probabilities"] for each in estimator.predict(data)])

  mirrored = features["image"][:, :, ::-1]
  np.testing.assert_allclose(
    probabilities(mirrored), probabilities(features["image"]), rtol=1e-5, atol=1e-6
  )
