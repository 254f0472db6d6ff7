"""Handwritten digits: the 1,797 images that come with scikit-learn, so that nothing is downloaded.

    run.train_input_fn = @train/digits.input_fn
    train/digits.input_fn.split = "train"
    train/digits.input_fn.training = True

Source: the test part of UCI's "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak,
  1998), as `sklearn.datasets.load_digits` has it.
It comes with no split. Here a fixed permutation puts 1,437 images into "train" and 360, a fifth of
them, into "test". Writers are in both.
"""

import functools

import gin
import numpy as np
import tensorflow as tf

import trainer
from input_pipelines import images as image_files
from input_pipelines import in_memory
from trainer import errors

CLASS_NAMES = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
gin.constant("digits.CLASS_NAMES", CLASS_NAMES)  # run.class_names = %digits.CLASS_NAMES
SPLITS = ("train", "test")
_TEST_SIZE = 360
_SPLIT_SEED = 0  # of numpy's RandomState, whose streams numpy promises never to change
_WHITE = 16.0  # pixels count the ink in 4 × 4 bitmaps


@gin.configurable
def input_fn(params, split="train", training=False, start=0):
  """The digits.

  Args:
    params: dict with "batch_size".
    split: "train" or "test".
    training: whether to shuffle and repeat without end, see `in_memory.batches`.
    start: examples that were seen before; the framework sets it.

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


@functools.cache  # every evaluation calls input_fn anew
def load(split):
  """(images uint8 [n, 8, 8, 1] in 0..16, labels int32 [n]) of a split; SettingError if there is
  no such split.
  """
  if split not in SPLITS:
    raise errors.SettingError(
      f"digits: there is no split {split!r}; expected one of "
      f"{', '.join(SPLITS)} (gin: digits.input_fn.split)."
    )
  from sklearn import datasets  # takes a second, which a model of other data need not wait for

  digits = datasets.load_digits()
  order = np.random.RandomState(_SPLIT_SEED).permutation(len(digits.target))
  rows = order[:-_TEST_SIZE] if split == "train" else order[-_TEST_SIZE:]
  return digits.images[rows, :, :, np.newaxis].astype(np.uint8), digits.target[rows].astype(
    np.int32
  )


def _from_file(encoded):
  """The same of an encoded image: of any size, white ink on black, whose pixels count to 255
  where those of the set count to 16.
  """
  pixels = tf.cast(image_files.decode(encoded, (8, 8, 1)), tf.float32) * (_WHITE / 255.0)
  return _scale({"image": pixels}, None)[0]["image"]


def _scale(features, labels):
  return {"image": tf.cast(features["image"], tf.float32) / _WHITE}, labels
