"""RandAugment: draws a few operations for each image.

E. Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space"
(2020). The fourteen operations, and the meaning of a magnitude from 0 to 30, are the usual ones, as
in torchvision; operations with a direction draw one of the two.

Images of a batch that drew the same operation go through it together. No result depends on the rest
of the batch: sums over an image are sums of integers, and the angles are constants.
"""

import math
from collections.abc import Callable

import tensorflow as tf

from . import randomness

LARGEST = 30.0  # magnitude
_GREY = 128.0  # fills the space beside a turned, sheared or moved image
GREY_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue: ITU-R BT.601
# The longest move of an image, as a share of its side: 150 of 331 pixels in the article.
_LONGEST_WAY = 150 / 331

# (uint8 [n, h, w, c], signs: float32 [n] of -1 and 1, strength in 0..1) → uint8 [n, h, w, c]
Operation = Callable[[tf.Tensor, tf.Tensor, float], tf.Tensor]


def apply(
  images: tf.Tensor, draw: randomness.Draws, operations: int, magnitude: float
) -> tf.Tensor:
  """Applies random operations to each image.

  Args:
    images: uint8 [b, h, w, c].
    draw: draws the random numbers.
    operations: number of operations on each image, one after the other.
    magnitude: the operations' magnitude, from 0 to LARGEST.

  Returns:
    uint8 [b, h, w, c].
  """
  for _ in range(operations):
    numbers = draw(2)
    chosen = tf.cast(numbers[:, 0] * len(OPERATIONS), tf.int32)
    signs = tf.where(numbers[:, 1] < 0.5, -1.0, 1.0)
    rows = tf.dynamic_partition(tf.range(tf.shape(images)[0]), chosen, len(OPERATIONS))
    results = [
      operation(tf.gather(images, own), tf.gather(signs, own), magnitude / LARGEST)
      for operation, own in zip(OPERATIONS.values(), rows, strict=True)
    ]
    images = tf.ensure_shape(tf.dynamic_stitch(rows, results), images.shape)
  return images


def _identity(images, signs, strength):
  del signs, strength
  return images


# ------------------------------------------------------------------- places


def _shear_x(images, signs, strength):
  return _transformed(images, xy=0.3 * strength * signs)


def _shear_y(images, signs, strength):
  return _transformed(images, yx=0.3 * strength * signs)


def _translate_x(images, signs, strength):
  return _transformed(images, x=_LONGEST_WAY * strength * images.shape[2] * signs)


def _translate_y(images, signs, strength):
  return _transformed(images, y=_LONGEST_WAY * strength * images.shape[1] * signs)


def _rotate(images, signs, strength):
  angle = math.radians(30.0 * strength)
  cosine, sine = tf.ones_like(signs) * math.cos(angle), signs * math.sin(angle)
  return _transformed(images, xx=cosine, xy=sine, yx=-sine, yy=cosine)


def _transformed(images, xx=1.0, xy=0.0, x=0.0, yx=0.0, yy=1.0, y=0.0):
  """Takes each pixel from the place (xx·column + xy·row + x, yx·column + yy·row + y).

  The middle of the image is the origin.
  """
  count, height, width = tf.shape(images)[0], images.shape[1], images.shape[2]
  row, column = (height - 1) / 2, (width - 1) / 2
  x += column - xx * column - xy * row
  y += row - yx * column - yy * row
  rows = [tf.broadcast_to(value, [count]) for value in (xx, xy, x, yx, yy, y, 0.0, 0.0)]
  return tf.raw_ops.ImageProjectiveTransformV3(
    images=images,
    transforms=tf.stack(rows, 1),
    output_shape=[height, width],
    fill_value=_GREY,
    interpolation="BILINEAR",
    fill_mode="CONSTANT",
  )


# ------------------------------------------------------------------ colours


def _brightness(images, signs, strength):
  return _blended(images, 0.0, signs, strength)


def _color(images, signs, strength):
  return _blended(images, tf.cast(_grey(images), tf.float32), signs, strength)


def _contrast(images, signs, strength):
  pixels = images.shape[1] * images.shape[2]
  total = tf.reduce_sum(_grey(images), [1, 2, 3], keepdims=True)
  mean = (total + pixels // 2) // pixels
  return _blended(images, tf.cast(mean, tf.float32), signs, strength)


def _sharpness(images, signs, strength):
  """Blends with an image of means over 5 times the pixel and its 8 neighbours."""
  pixels = tf.cast(images, tf.int32)
  row = pixels[:, :-2] + pixels[:, 1:-1] + pixels[:, 2:]
  around = row[:, :, :-2] + row[:, :, 1:-1] + row[:, :, 2:]
  inside = (around + 4 * pixels[:, 1:-1, 1:-1] + 6) // 13
  border = [[0, 0], [1, 1], [1, 1], [0, 0]]
  is_inside = tf.pad(tf.ones_like(inside, tf.bool), border)
  smooth = tf.where(is_inside, tf.pad(inside, border), pixels)
  return _blended(images, tf.cast(smooth, tf.float32), signs, strength)


def _grey(images):
  """Returns int32 [n, h, w, 1]."""
  pixels = tf.cast(images, tf.int32)
  if images.shape[-1] != 3:
    return pixels[..., :1]
  weights = [round(weight * 2**16) for weight in GREY_WEIGHTS]
  return (tf.reduce_sum(pixels * weights, -1, keepdims=True) + 2**15) // 2**16


def _blended(images, other, signs, strength):
  """Moves images away from others (1 + 0.9·strength) or towards them (1 - 0.9·strength)."""
  factor = (1.0 + 0.9 * strength * signs)[:, tf.newaxis, tf.newaxis, tf.newaxis]
  blended = other + (tf.cast(images, tf.float32) - other) * factor
  return tf.cast(tf.clip_by_value(tf.round(blended), 0.0, 255.0), tf.uint8)


# ------------------------------------------------------------------- values


def _posterize(images, signs, strength):
  del signs
  dropped = round(4 * strength)  # bits
  return images // 2**dropped * 2**dropped


def _solarize(images, signs, strength):
  del signs
  return tf.where(tf.cast(images, tf.float32) >= 255.0 * (1 - strength), 255 - images, images)


def _auto_contrast(images, signs, strength):
  """Stretches the values of each channel to 0..255."""
  del signs, strength
  pixels = tf.cast(images, tf.int32)
  lowest = tf.reduce_min(pixels, [1, 2], keepdims=True)
  spread = tf.reduce_max(pixels, [1, 2], keepdims=True) - lowest
  stretched = (pixels - lowest) * 255 // tf.maximum(spread, 1)
  return tf.cast(tf.where(spread > 0, stretched, pixels), tf.uint8)


def _equalize(images, signs, strength):
  """Makes the values of each channel about equally frequent, as the Python Imaging Library does."""
  del signs, strength
  count, channels = tf.shape(images)[0], images.shape[3]
  histograms = count * channels
  # The values of histogram i start at 256·i, so one count makes all histograms.
  first = tf.reshape(tf.range(histograms) * 256, [count, 1, 1, channels])
  places = tf.cast(images, tf.int32) + first
  counts = tf.reshape(
    tf.math.bincount(tf.reshape(places, [-1]), minlength=histograms * 256), [histograms, 256]
  )
  total = images.shape[1] * images.shape[2]
  # All but the pixels of the image's highest value.
  highest = 255 - tf.argmax(tf.reverse(counts > 0, [1]), 1, tf.int32)
  step = (total - tf.gather(counts, highest, batch_dims=1)) // 255
  below = tf.cumsum(counts, 1, exclusive=True)
  table = (below + (step // 2)[:, tf.newaxis]) // tf.maximum(step, 1)[:, tf.newaxis]
  table = tf.where((step > 0)[:, tf.newaxis], tf.minimum(table, 255), tf.range(256))
  return tf.cast(tf.gather(tf.reshape(table, [-1]), places), tf.uint8)


OPERATIONS: dict[str, Operation] = {
  "identity": _identity,
  "shear x": _shear_x,
  "shear y": _shear_y,
  "translate x": _translate_x,
  "translate y": _translate_y,
  "rotate": _rotate,
  "brightness": _brightness,
  "color": _color,
  "contrast": _contrast,
  "sharpness": _sharpness,
  "posterize": _posterize,
  "solarize": _solarize,
  "autocontrast": _auto_contrast,
  "equalize": _equalize,
}
