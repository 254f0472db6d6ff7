"""A class for each pixel: all modes agree, and the mean of intersection over union is numpy's."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from models import unet
from tests.models import small_runs
from trainer import errors

SMALL = functools.partial(
  unet.model_fn,
  classes=3,
  filters=(4, 6),
  norm_momentum=0.5,
  optimizer=functools.partial(keras.optimizers.Adam, 0.01),
)


def scenes(side=8):
  """(features, labels): dark, grey and bright pixels, which are the classes 0, 1 and 2."""
  random = np.random.RandomState(0)
  labels = random.randint(0, 3, [small_runs.EXAMPLES, side, side]).astype(np.int32)
  noise = random.rand(*labels.shape, 1) * 0.1
  return {"image": (0.5 * labels[..., np.newaxis] + noise).astype(np.float32)}, labels


def test_trains_evaluates_predicts_and_serves(tmp_path):
  features, labels = scenes()
  estimator, last = small_runs.check(SMALL, features, labels, tmp_path, steps=12)

  predicted = np.stack(
    [each["class"] for each in estimator.predict(lambda params: input_fn(params, features))]
  )
  shared = [((predicted == each) & (labels == each)).sum() for each in range(3)]
  either = [((predicted == each) | (labels == each)).sum() for each in range(3)]
  np.testing.assert_allclose(last["mean_iou"], np.mean(np.divide(shared, either)), rtol=1e-5)


def input_fn(params, features):
  return tf.data.Dataset.from_tensor_slices(features).batch(params["batch_size"])


def test_each_level_halves_the_image(tmp_path):
  model_fn = functools.partial(SMALL, filters=(2, 3, 5))
  estimator = small_runs.trained(model_fn, *scenes(), tmp_path, steps=0)
  shapes = {name: tuple(value.shape) for name, value in estimator.variables.items()}
  assert shapes["conv2d/kernel"] == (3, 3, 1, 2)
  assert shapes["conv2d_4/kernel"] == (3, 3, 3, 5)
  assert shapes["conv2d_transpose/kernel"] == (2, 2, 3, 5)
  # What is passed over comes beside what comes from below.
  assert shapes["conv2d_6/kernel"] == (3, 3, 6, 3)
  assert shapes["conv2d_10/kernel"] == (1, 1, 2, 3)


def test_images_that_cannot_be_halved_so_often(tmp_path):
  with pytest.raises(errors.SettingError, match="multiples of 4; the images have 10 × 10 pixels"):
    small_runs.trained(functools.partial(SMALL, filters=(2, 3, 5)), *scenes(10), tmp_path)


def test_weights_of_pixels_are_in_the_loss(tmp_path):
  """A class that does not count is not learnt, and so is hit by chance alone."""
  features, labels = scenes()
  model_fn = functools.partial(SMALL, filters=(4,))
  estimator = small_runs.trained(
    model_fn, features, labels, tmp_path, steps=30, class_weight={0: 1.0, 1: 0.0, 2: 1.0}
  )
  predicted = np.stack(
    [each["class"] for each in estimator.predict(lambda params: input_fn(params, features))]
  )
  assert (predicted == 1).mean() < 0.05
  assert (predicted[labels != 1] == labels[labels != 1]).mean() > 0.9
