"""Augments batches of images on the host, and mixes pairs of them.

    train/cifar10.input_fn.augment = @augment.standard
    augment.standard.cutout = 8
    augment.standard.flip = "alternate"
    train/cifar10.input_fn.mix = @augment.mix
    augment.mix.classes = 10
    augment.mix.mixup = 0.2

An augmentation is a function `augment(images, draw)`. `images` is uint8 [b, h, w, c]. `draw`, a
`randomness.Draws`, returns random numbers for each example. An augmentation returns images of the
same shape, uint8 or float32 in 0..255.

A mix is a function `mix(images, labels, others, their_labels, draw)` of augmented images, their
labels (int [b]) and a partner of each. A mix returns images and the labels of the loss. The image
pipeline chooses the partners.

Keras has layers for most of this. They draw by the place in the batch, so their images would differ
with the number of cores.
"""

import functools
from typing import Literal

import gin
import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from . import rand_augment, randomness

# AutoGraph has nothing to convert in `standard` and `mix`. Reading their source would take longer
# than everything else before the first batch.

_SHARES = 4096  # number of random shares to draw from, all equally likely


@gin.configurable
@tf.autograph.experimental.do_not_convert
@trainer.check_settings
def standard(
  images: tf.Tensor,
  draw: randomness.Draws,
  flip: bool | Literal["alternate"] = True,
  shift: int = 4,
  randaugment: int = 0,
  magnitude: float = 9.0,
  cutout: int = 0,
  brightness: float = 0.0,
  contrast: float = 0.0,
  saturation: float = 0.0,
) -> tf.Tensor:
  """Applies the usual augmentations of small photos. Only `flip` and `shift` are on by default.

  Args:
    images: uint8 [b, h, w, c].
    draw: draws the random numbers.
    flip: whether to mirror half of the images, left to right. "alternate" mirrors each image in
      every second epoch, so two epochs have both views of an image (K. Jordan, "94% on CIFAR-10 in
      3.29 Seconds on a Single GPU", arXiv:2404.00498).
    shift: the largest move of an image in each direction, in pixels. Mirroring at the border fills
      the gap.
    randaugment: number of random operations on each image after the move, see `rand_augment`; 0 for
      none, 2 is usual.
    magnitude: the operations' magnitude, from 0 to 30.
    cutout: side of a grey square at a random place (T. DeVries, G. Taylor, 2017); 0 for none.
    brightness: the largest change, as a share of the full range.
    contrast: the random factor of the contrast is between 1 - contrast and 1 + contrast.
    saturation: the random factor of the saturation is between 1 - saturation and 1 + saturation.

  Returns:
    uint8 [b, h, w, c]; float32 in 0..255 after changes of colours.

  Raises:
    SettingError: magnitude is out of range.
  """
  if not 0 <= magnitude <= rand_augment.LARGEST:
    raise errors.SettingError(
      f"augment.standard.magnitude is {magnitude}: expected a number from 0 to "
      f"{rand_augment.LARGEST:g}."
    )
  if flip or shift:
    images = _moved(images, draw, flip, shift)
  if randaugment:
    images = rand_augment.apply(images, draw, randaugment, magnitude)
  if brightness or contrast or saturation:
    images = _recoloured(tf.cast(images, tf.float32), draw, brightness, contrast, saturation)
  if cutout:
    images = _cut_out(images, draw, cutout)
  return images


def _moved(images, draw, flip, shift):
  """Mirrors and shifts images.

  Gathers each pixel of the result from its place in the flat batch: one operation for the whole
  batch is much faster than a crop for each image.
  """
  _, height, width, channels = images.shape
  numbers = draw(3)
  offsets = tf.cast(tf.floor(numbers[:, 1:] * (2 * shift + 1)), tf.int32) - shift
  rows = _mirrored(tf.range(height) + offsets[:, :1], height)
  columns = _mirrored(tf.range(width) + offsets[:, 1:], width)
  if flip:
    mirrored = draw.alternate() if flip == "alternate" else numbers[:, 0] < 0.5
    columns = tf.where(mirrored[:, tf.newaxis], width - 1 - columns, columns)
  first = tf.range(tf.shape(images)[0])[:, tf.newaxis, tf.newaxis] * (height * width)
  pixels = first + rows[:, :, tf.newaxis] * width + columns[:, tf.newaxis, :]
  return tf.gather(tf.reshape(images, [-1, channels]), pixels)


def _mirrored(positions, size):
  """Mirrors positions outside of [0, size) at the first and the last position."""
  last = size - 1
  return tf.clip_by_value(last - tf.abs(last - tf.abs(positions)), 0, last)


def _cut_out(images, draw, side):
  sides = tf.fill([tf.shape(images)[0]], float(side))
  square = _boxes(images, draw(2), sides, sides)
  return tf.where(square[..., tf.newaxis], tf.constant(128, images.dtype), images)


def _boxes(images, centres, height, width):
  """Returns bool [b, h, w], True in a box of each image. A box may reach over the border.

  Args:
    images: [b, h, w, c].
    centres: float32 [b, 2] in 0..1.
    height: of the boxes in pixels, float32 [b].
    width: the same.
  """

  def inside(size, centre, side):
    places = tf.range(size, dtype=tf.float32) + 0.5
    return tf.abs(places - centre[:, tf.newaxis] * size) < side[:, tf.newaxis] / 2

  rows = inside(images.shape[1], centres[:, 0], height)
  columns = inside(images.shape[2], centres[:, 1], width)
  return rows[:, :, tf.newaxis] & columns[:, tf.newaxis, :]


def _recoloured(images, draw, brightness, contrast, saturation):
  numbers = draw(3)[:, :, tf.newaxis, tf.newaxis, tf.newaxis] * 2.0 - 1.0
  if brightness:
    images += numbers[:, 0] * (255.0 * brightness)
  if contrast:
    mean = tf.reduce_mean(images, [1, 2, 3], keepdims=True)
    images = mean + (images - mean) * (1.0 + numbers[:, 1] * contrast)
  if saturation and images.shape[-1] == 3:
    grey = tf.reduce_sum(images * tf.constant(rand_augment.GREY_WEIGHTS), -1, keepdims=True)
    images = grey + (images - grey) * (1.0 + numbers[:, 2] * saturation)
  return tf.clip_by_value(images, 0.0, 255.0)


@gin.configurable
@tf.autograph.experimental.do_not_convert
@trainer.check_settings
def mix(
  images: tf.Tensor,
  labels: tf.Tensor,
  others: tf.Tensor,
  their_labels: tf.Tensor,
  draw: randomness.Draws,
  classes: int | None = None,
  mixup: float = 0.0,
  cutmix: float = 0.0,
  share: float = 1.0,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Mixes each image and its label with a partner's.

  MixUp (H. Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018) takes the mean of both
  images, with a random weight for the own image. CutMix (S. Yun et al., 2019) replaces a random box
  by the same box of the partner. The labels become probabilities of the classes, weighted like the
  images. With both settings, each example gets MixUp or CutMix, with equal chances.

  Args:
    images: uint8 or float32 [b, h, w, c].
    labels: int [b].
    others: the partners' images, like `images`.
    their_labels: the partners' labels.
    draw: draws the random numbers.
    classes: number of classes; required.
    mixup: α of the distribution Beta(α, α) of MixUp's weights, such as 0.2; 0 for no MixUp.
    cutmix: the same for the shares that CutMix leaves, such as 1.0; 0 for no CutMix.
    share: the share of examples to mix.

  Returns:
    (images: float32 [b, h, w, c], probabilities: float32 [b, classes]).

  Raises:
    SettingError: classes is missing, mixup and cutmix are both 0, or a number is out of range.
  """
  _check_mix(classes, mixup, cutmix, share)
  numbers = draw(5)
  mixed = numbers[:, 0] < share
  cut = mixed & (numbers[:, 1] < (0.5 if mixup else 1.0)) if cutmix else tf.zeros_like(mixed)
  # The weight of the own image in the example, and in each pixel.
  weights = tf.where(mixed, _beta(mixup or cutmix, numbers[:, 2]), 1.0)
  pixels = tf.broadcast_to(weights[:, tf.newaxis, tf.newaxis], tf.shape(images)[:3])
  if cutmix:
    side = tf.sqrt(1.0 - _beta(cutmix, numbers[:, 2]))
    boxes = _boxes(images, numbers[:, 3:], side * images.shape[1], side * images.shape[2])
    covered = tf.cast(tf.math.count_nonzero(boxes, [1, 2]), tf.float32)
    weights = tf.where(cut, 1.0 - covered / (images.shape[1] * images.shape[2]), weights)
    pixels = tf.where(cut[:, tf.newaxis, tf.newaxis], tf.cast(~boxes, tf.float32), pixels)
  images = _weighted(images, others, pixels[..., tf.newaxis])
  # Larger labels would have rows of zeros, and would not count.
  check = tf.debugging.assert_less(
    tf.maximum(labels, their_labels),
    tf.constant(classes, labels.dtype),
    f"augment.mix.classes is {classes}, and a label is not less",
  )
  with tf.control_dependencies([check]):
    own, others = tf.one_hot(labels, classes), tf.one_hot(their_labels, classes)
  return images, _weighted(own, others, weights[:, tf.newaxis])


def _weighted(own, others, weights):
  return tf.cast(own, tf.float32) * weights + tf.cast(others, tf.float32) * (1.0 - weights)


def _check_mix(classes, mixup, cutmix, share):
  if classes is None or classes < 1:
    raise errors.SettingError(
      f"augment.mix.classes is {classes}: expected the number of classes. mix cannot mix integer "
      "labels: the loss gets a probability of each class."
    )
  _require("mix.mixup", mixup, 0, np.inf)
  _require("mix.cutmix", cutmix, 0, np.inf)
  _require("mix.share", share, 0, 1)
  if not (mixup or cutmix):
    raise errors.SettingError(
      "augment.mix has nothing to do: set augment.mix.mixup or augment.mix.cutmix, or leave it out."
    )


def _require(name, value, lowest, highest):
  if not lowest <= value <= highest:
    upper = f" to {highest:g}" if highest < np.inf else " on"
    raise errors.SettingError(
      f"augment.{name} is {value}: expected a number from {lowest:g}{upper}."
    )


def _beta(concentration, numbers):
  """Maps uniform numbers to numbers of the distribution Beta(concentration, concentration)."""
  return tf.gather(_quantiles(concentration), tf.cast(numbers * _SHARES, tf.int32))


@functools.cache
def _quantiles(concentration):
  """Returns float32 [_SHARES], the middles of equally likely intervals."""
  # Most numbers of a small concentration are close to 0 and 1, so use a logarithmic grid.
  places = 1.0 / (1.0 + np.exp(-np.linspace(-80.0, 80.0, 20_001)))
  with tf.init_scope():
    a = tf.constant(concentration, tf.float64)
    reached = tf.math.betainc(a, a, tf.constant(places)).numpy()
  wanted = (np.arange(_SHARES) + 0.5) / _SHARES
  return np.interp(wanted, reached, places).astype(np.float32)
