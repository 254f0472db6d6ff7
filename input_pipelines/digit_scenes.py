"""Scenes of one to four handwritten digits, for several labels an image, or a label for each pixel.

    run.train_input_fn = @train/digit_scenes.input_fn
    train/digit_scenes.input_fn.training = True
    test/digit_scenes.input_fn.split = "test"
    digit_scenes.input_fn.labels = "pixels"

Each scene has 32 × 32 pixels in four squares, and a digit somewhere in a square or none. Nothing
needs a download: the digits come from `digits`, a part of scikit-learn. Scenes of the test have
digits of the test alone. A fixed seed draws the scenes, so they are always the same.
"""

import functools
from typing import Any

import gin
import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from . import digits, in_memory
from . import images as image_files

CLASS_NAMES = digits.CLASS_NAMES
gin.constant("digit_scenes.CLASS_NAMES", CLASS_NAMES)
LABELS = ("digits", "pixels")
_SCENES = {"train": 4000, "test": 500}
_SIDE, _SQUARE, _DIGIT = 32, 16, 8  # pixels
_WHITE = 16.0  # of a pixel of `digits`
_INK = 4  # the least value of a pixel that belongs to a digit


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  split: str = "train",
  training: bool = False,
  labels: str = "digits",
  start: int = 0,
) -> tf.data.Dataset:
  """Reads the scenes.

  Args:
    params: dict with "batch_size".
    split: "train" or "test".
    training: whether to shuffle and repeat without end, see `in_memory.batches`.
    labels: "digits" for int32 [b, 10], 1 for each digit that the scene has; "pixels" for int32
      [b, 32, 32], 0 for the background, and 1 more than the digit for its ink.
    start: number of examples that the training has seen; the framework sets it.

  Returns:
    A dataset of ({"image": float32 [b, 32, 32, 1] in 0..1}, labels).

  Raises:
    SettingError: split or labels is unknown.
  """
  if labels not in LABELS:
    raise errors.SettingError(
      f"digit_scenes.input_fn.labels is {labels!r}: expected one of {', '.join(LABELS)}."
    )
  images, pixels = load(split)
  dataset = in_memory.batches(
    {"image": images},
    pixels if labels == "pixels" else present(pixels),
    params["batch_size"],
    training=training,
    preprocess=_scale,
    start=start,
  )
  return trainer.mark_decodable(dataset, {"image": _from_file})


@functools.cache  # each evaluation calls input_fn again
def load(split: str) -> tuple[np.ndarray, np.ndarray]:
  """Draws the scenes of a split, "train" or "test".

  Returns:
    Images (uint8 [n, 32, 32, 1] in 0..16) and the classes of their pixels (int32 [n, 32, 32]).

  Raises:
    SettingError: there is no such split.
  """
  found, numbers = digits.load(split)
  count = _SCENES[split]
  draw = np.random.RandomState(list(_SCENES).index(split))  # NumPy never changes its numbers
  images = np.zeros([count, _SIDE, _SIDE, 1], np.uint8)
  pixels = np.zeros([count, _SIDE, _SIDE], np.int32)
  for scene in range(count):
    squares = draw.permutation((_SIDE // _SQUARE) ** 2)
    for square in squares[: draw.randint(1, len(squares) + 1)]:
      which = draw.randint(len(numbers))
      moved = draw.randint(_SQUARE - _DIGIT + 1, size=2)
      row, column = np.array(divmod(square, _SIDE // _SQUARE)) * _SQUARE + moved
      place = scene, slice(row, row + _DIGIT), slice(column, column + _DIGIT)
      images[place] = found[which]
      pixels[place] = np.where(found[which, :, :, 0] >= _INK, numbers[which] + 1, 0)
  return images, pixels


def present(pixels: np.ndarray) -> np.ndarray:
  """Returns int32 [n, 10], 1 for each digit with a pixel in the scene."""
  classes = np.arange(1, len(CLASS_NAMES) + 1)
  return np.stack([(pixels == each).any((1, 2)) for each in classes], -1).astype(np.int32)


def _from_file(encoded):
  """Makes the feature from an image file of any size, with white ink on black."""
  pixels = tf.cast(image_files.decode(encoded, (_SIDE, _SIDE, 1)), tf.float32) * (_WHITE / 255.0)
  return _scale({"image": pixels}, None)[0]["image"]


def _scale(features, labels):
  return {"image": tf.cast(features["image"], tf.float32) / _WHITE}, labels
