"""Augmentation of batches of images, on the host.

    train/cifar10.input_fn.augment = @augment.standard
    augment.standard.cutout = 8

An augmentation is a function `augment(images, draw)`: images uint8 [b, h, w, c], `draw` a
`randomness.Draws`; it returns images of the same shape, uint8 or float32 in 0..255. It works on the
whole batch at once, each example with numbers of its own.
"""

import gin
import tensorflow as tf

_GREY_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue: ITU-R BT.601


@gin.configurable
def standard(
  images, draw, flip=True, shift=4, cutout=0, brightness=0.0, contrast=0.0, saturation=0.0
):
  """What small photos usually get. Nothing but `flip` and `shift` is on by default.

  Args:
    images: uint8 [b, h, w, c].
    draw: a randomness.Draws.
    flip: whether half of the images are mirrored, left to right.
    shift: pixels, at most, by which an image moves in each direction; what comes in at the border
      is its mirror image.
    cutout: side of a square that is made grey, at a random place (T. DeVries, G. Taylor, 2017); 0
      for none.
    brightness: the share of the full range, at most, that is added or taken away.
    contrast, saturation: how much, at most, they are multiplied by 1 ± this.

  Returns:
    uint8 [b, h, w, c], or float32 in 0..255 where colours were changed.
  """
  if flip or shift:
    images = _moved(images, draw, flip, shift)
  if brightness or contrast or saturation:
    images = _recoloured(tf.cast(images, tf.float32), draw, brightness, contrast, saturation)
  if cutout:
    images = _cut_out(images, draw, cutout)
  return images


def _moved(images, draw, flip, shift):
  """Mirrors and shifts in one gather of pixels."""
  _, height, width, channels = images.shape
  numbers = draw(3)
  offsets = tf.cast(tf.floor(numbers[:, 1:] * (2 * shift + 1)), tf.int32) - shift
  rows = _mirrored(tf.range(height) + offsets[:, :1], height)
  columns = _mirrored(tf.range(width) + offsets[:, 1:], width)
  if flip:
    columns = tf.where(numbers[:, :1] < 0.5, width - 1 - columns, columns)
  first = tf.range(tf.shape(images)[0])[:, tf.newaxis, tf.newaxis] * (height * width)
  pixels = first + rows[:, :, tf.newaxis] * width + columns[:, tf.newaxis, :]
  return tf.gather(tf.reshape(images, [-1, channels]), pixels)


def _mirrored(positions, size):
  """Positions beyond [0, size) mirrored at the first and the last one."""
  last = size - 1
  return tf.clip_by_value(last - tf.abs(last - tf.abs(positions)), 0, last)


def _cut_out(images, draw, side):
  _, height, width, _ = images.shape
  centres = draw(2)

  def inside(size, numbers):
    distance = tf.abs(tf.range(size, dtype=tf.float32) + 0.5 - numbers[:, tf.newaxis] * size)
    return distance < side / 2

  square = (
    inside(height, centres[:, 0])[:, :, tf.newaxis] & inside(width, centres[:, 1])[:, tf.newaxis, :]
  )
  return tf.where(square[..., tf.newaxis], tf.constant(128, images.dtype), images)


def _recoloured(images, draw, brightness, contrast, saturation):
  numbers = draw(3)[:, :, tf.newaxis, tf.newaxis, tf.newaxis] * 2.0 - 1.0
  if brightness:
    images += numbers[:, 0] * (255.0 * brightness)
  if contrast:
    mean = tf.reduce_mean(images, [1, 2, 3], keepdims=True)
    images = mean + (images - mean) * (1.0 + numbers[:, 1] * contrast)
  if saturation and images.shape[-1] == 3:
    grey = tf.reduce_sum(images * tf.constant(_GREY_WEIGHTS), -1, keepdims=True)
    images = grey + (images - grey) * (1.0 + numbers[:, 2] * saturation)
  return tf.clip_by_value(images, 0.0, 255.0)
