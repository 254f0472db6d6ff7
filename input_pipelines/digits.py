"""Handwritten digits: the 1,797 images of scikit-learn, without a download.

    run.train_input_fn = @train/digits.input_fn
    train/digits.input_fn.split = "train"
    train/digits.input_fn.training = True

The set has no splits. Here a fixed permutation puts 1,437 images into "train" and 360, a fifth,
into "test". Both splits have images of the same writers.

Source: the test part of UCI's "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak,
1998), from `sklearn.datasets.load_digits`.
"""

import functools
from typing import Any

import gin
import numpy as np
import tensorflow as tf

import trainer

from . import images as image_files
from . import in_memory

CLASS_NAMES = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
gin.constant("digits.CLASS_NAMES", CLASS_NAMES)  # run.class_names = %digits.CLASS_NAMES
SPLITS = ("train", "test")
_TEST_SIZE = 360
_SPLIT_SEED = 0  # for RandomState, because NumPy promises never to change its numbers
_WHITE = 16.0  # a pixel is the number of inked dots in a square of 4 × 4


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any], split: str = "train", training: bool = False, start: int = 0
) -> tf.data.Dataset:
  """Reads the digits.

  Args:
    params: dict with "batch_size".
    split: "train" or "test".
    training: whether to shuffle and repeat without end, see `in_memory.batches`.
    start: number of examples that the training has seen; the framework sets it.

  Returns:
    A dataset of ({"image": float32 [batch, 8, 8, 1] in 0..1}, labels: int32 [batch] in 0..9).

  Raises:
    SettingError: there is no such split.
  """
  images, labels = load(split)
  batches = in_memory.batches(
    {"image": images},
    labels,
    params["batch_size"],
    training=training,
    preprocess=_scale,
    start=start,
  )
  return trainer.mark_decodable(batches, {"image": _from_file})


@functools.cache  # each evaluation calls input_fn again
def load(split: str) -> tuple[np.ndarray, np.ndarray]:
  """Loads a split.

  Args:
    split: one of SPLITS.

  Returns:
    Images (uint8 [n, 8, 8, 1] in 0..16) and labels (int32 [n]).

  Raises:
    SettingError: there is no such split.
  """
  in_memory.check_split("digits", split, SPLITS)
  from sklearn import datasets  # here, because the import takes a second

  digits = datasets.load_digits()
  order = np.random.RandomState(_SPLIT_SEED).permutation(len(digits.target))
  rows = order[:-_TEST_SIZE] if split == "train" else order[-_TEST_SIZE:]
  return digits.images[rows, :, :, np.newaxis].astype(np.uint8), digits.target[rows].astype(
    np.int32
  )


def _from_file(encoded):
  """Makes the feature from an image file of any size, with white ink on black."""
  pixels = tf.cast(image_files.decode(encoded, (8, 8, 1)), tf.float32) * (_WHITE / 255.0)
  return _scale({"image": pixels}, None)[0]["image"]


def _scale(features, labels):
  return {"image": tf.cast(features["image"], tf.float32) / _WHITE}, labels
