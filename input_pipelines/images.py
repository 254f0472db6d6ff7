"""Decodes images to uint8 pixels of one size, and converts batches of images to float32.

The EXIF orientation of a JPEG file turns the image upright, as cameras expect of every program;
TensorFlow's own operations ignore it.

Crops of an image of any size:

    "squash"     the whole image, whose proportions may change
    "central"    the largest part in the middle with the right proportions
    "random"     in training: a random part, whose area and proportions vary (C. Szegedy et al.,
                 "Going Deeper with Convolutions", 2014); otherwise as "central"
"""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import tensorflow as tf

import trainer
from trainer import errors

from . import records

CROPS = ("central", "squash", "random")
# The first bytes of JPEG, PNG and GIF files. BMP files have two, and a separate check.
_SIGNATURES = (b"\xff\xd8\xff", b"\x89PN", b"GIF")
# EXIF data are the first segment of a JPEG file, or the second after one of 18 bytes. A program
# such as a camera's stores the orientation near their beginning, as little or big endian.
_HAS_EXIF = r"\C{6}(\C{18})?Exif\C*"
_EXIF_START, _EXIF_BYTES = 30, 2048
_ORIENTATIONS = ((0x12, 1, 3, 0, 1, 0, 0, 0), (1, 0x12, 0, 3, 0, 0, 0, 1, 0))
_NO_IMAGE = " is no JPEG, PNG, GIF or BMP image"


def size_of(
  image_size: int | Sequence[int] | None, shape: Sequence[int | None], gin_name: str
) -> tuple[int, int, int]:
  """Returns (height, width, channels), the size of the resized images.

  Args:
    image_size: the side, (height, width), or None for the size of the data.
    shape: (height, width, channels) of the data. Height and width may be None; None channels are
      three.
    gin_name: of the input_fn with the setting, for error messages.

  Raises:
    SettingError: image_size is not a size, or is None and the images differ in size.
  """
  height, width, channels = shape
  channels = channels or 3
  if image_size is None:
    if height is None or width is None:
      raise errors.SettingError(
        f"The images differ in size: set {gin_name}.image_size to the side "
        "in pixels, or to (height, width)."
      )
    return height, width, channels
  sides = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
  if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
    raise errors.SettingError(
      f"{gin_name}.image_size is {image_size!r}: expected the side in pixels, or (height, width)."
    )
  return *sides, channels


def check_crop(crop: str, gin_name: str) -> None:
  """Raises SettingError unless crop is one of CROPS; gin_name is the input_fn's name."""
  if crop not in CROPS:
    raise errors.SettingError(f"{gin_name}.crop is {crop!r}: expected one of {', '.join(CROPS)}.")


def assert_images(encoded: tf.Tensor, name: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
  """Adds a check that names the first record that TensorFlow cannot decode as an image.

  Args:
    encoded: string [n], the encoded images.
    name: see `records.batches`' parse.

  Returns:
    `encoded`. Reading it raises tf.errors.InvalidArgumentError if the check fails.
  """
  return records.assert_each(_are_images(encoded), encoded, name, _NO_IMAGE)


def assert_image_file(encoded: tf.Tensor, path: tf.Tensor) -> tf.Tensor:
  """As `assert_images`, for the contents of one file (string scalar)."""
  with tf.control_dependencies(
    [tf.debugging.Assert(_are_images(encoded), [tf.strings.join([path, _NO_IMAGE])])]
  ):
    return tf.identity(encoded)


def _are_images(encoded):
  start, two = tf.strings.substr(encoded, 0, 3), tf.strings.substr(encoded, 0, 2)
  return tf.reduce_any(tf.equal(start[..., tf.newaxis], tf.constant(_SIGNATURES)), -1) | tf.equal(
    two, b"BM"
  )


def decode(
  encoded: tf.Tensor,
  size: tuple[int, int, int],
  crop: str | None = "central",
  numbers: tf.Tensor | None = None,
) -> tf.Tensor:
  """Decodes, crops and resizes one image. Resizing is bilinear, without antialiasing.

  Args:
    encoded: string scalar: a JPEG, PNG, GIF (its first frame) or BMP file.
    size: (height, width, channels).
    crop: one of CROPS; None for an image with this size.
    numbers: random float32 [4] in [0, 1) for the crop "random"; None for the central crop instead.

  Returns:
    uint8 [height, width, channels].
  """
  height, width, channels = size
  orientation = _orientation(encoded)
  if crop in (None, "squash"):
    pixels = _decoded(encoded, channels, orientation)
  elif crop == "random" and numbers is not None:
    pixels = _window(
      encoded, channels, orientation, lambda shape: random_window(shape, width / height, numbers)
    )
  else:
    pixels = _window(
      encoded, channels, orientation, lambda shape: central_window(shape, width / height)
    )
  if crop is None:
    return tf.ensure_shape(pixels, size)
  as_is = tf.reduce_all(tf.equal(tf.shape(pixels)[:2], (height, width)))
  return tf.ensure_shape(
    tf.cond(as_is, lambda: pixels, lambda: _resized(pixels, height, width)), size
  )


def _decoded(encoded, channels, orientation):
  def decoded(count):
    return tf.io.decode_image(encoded, channels=count, expand_animations=False)

  if channels == 1:
    pixels = tf.cond(
      _decodes_to_grey(encoded), lambda: decoded(1), lambda: tf.image.rgb_to_grayscale(decoded(3))
    )
  else:
    pixels = decoded(channels)
  return tf.cond(orientation > 1, lambda: _upright(pixels, orientation), lambda: pixels)


def _decodes_to_grey(encoded):
  """Returns whether TensorFlow decodes the file to one channel: no GIF, BMP or CMYK JPEG file."""
  return tf.cond(
    tf.io.is_jpeg(encoded),
    lambda: tf.image.extract_jpeg_shape(encoded)[2] < 4,
    lambda: tf.equal(tf.strings.substr(encoded, 0, 3), b"\x89PN"),
  )


def _resized(pixels, height, width):
  return tf.cast(tf.round(tf.image.resize(pixels, (height, width))), tf.uint8)


def _orientation(encoded):
  """Returns the EXIF orientation of a JPEG file, 1 to 8 (int32); 1 if there is none."""

  def of_exif():
    header = tf.io.decode_raw(tf.strings.substr(encoded, 0, _EXIF_BYTES), tf.uint8)
    found = tf.cast(tf.reduce_max([_after(header, tag) for tag in _ORIENTATIONS]), tf.int32)
    return tf.where((found > 0) & (found < 9), found, 1)

  start = tf.strings.substr(encoded, 0, _EXIF_START)
  has_exif = tf.io.is_jpeg(encoded) & tf.strings.regex_full_match(start, _HAS_EXIF)
  return tf.cond(has_exif, of_exif, lambda: tf.constant(1))


def _after(header, tag):
  """Returns the byte after a sequence of bytes; 0 if the header does not have it."""
  following = header[len(tag) :]
  count = tf.size(following)
  same = tf.reduce_all([header[i : i + count] == byte for i, byte in enumerate(tag)], 0)
  return tf.reduce_max(tf.where(same, following, tf.zeros_like(following)))


def _upright(pixels, orientation):
  """Turns and mirrors pixels [h, w, c] as the EXIF standard defines the orientations."""

  def is_any(*orientations):
    return tf.reduce_any(tf.equal(orientation, orientations))

  pixels = tf.cond(orientation > 4, lambda: tf.transpose(pixels, [1, 0, 2]), lambda: pixels)
  pixels = tf.cond(is_any(2, 3, 6, 7), lambda: pixels[:, ::-1], lambda: pixels)
  return tf.cond(is_any(3, 4, 7, 8), lambda: pixels[::-1], lambda: pixels)


def _window(encoded, channels, orientation, choose):
  """Decodes a part of an image. For an upright JPEG, decodes only that part, which saves time."""

  def of_jpeg():
    window = choose(tf.image.extract_jpeg_shape(encoded)[:2])
    return tf.image.decode_and_crop_jpeg(encoded, window, channels=channels)

  def of_others():
    pixels = _decoded(encoded, channels, orientation)
    top, left, height, width = tf.unstack(choose(tf.shape(pixels)[:2]))
    return pixels[top : top + height, left : left + width]

  by_parts = tf.io.is_jpeg(encoded) & tf.equal(orientation, 1)
  if channels == 1:
    by_parts &= _decodes_to_grey(encoded)
  return tf.cond(by_parts, of_jpeg, of_others)


def central_window(shape: tf.Tensor, ratio: float) -> tf.Tensor:
  """Returns the largest window in the middle of an image with the given proportions.

  Args:
    shape: int32 [2], height and width of the image.
    ratio: width ÷ height of the window.

  Returns:
    int32 [4]: top, left, height, width.
  """
  sides = tf.cast(shape, tf.float32)
  height = tf.minimum(sides[0], sides[1] / ratio)
  return _placed(shape, tf.stack([height, height * ratio]), tf.constant([0.5, 0.5]))


@gin.configurable
@trainer.check_settings
def random_window(
  shape: tf.Tensor,
  ratio: float,
  numbers: tf.Tensor,
  min_area: float = 0.25,
  max_stretch: float = 4 / 3,
) -> tf.Tensor:
  """Returns a random window of an image; shortens sides longer than the image.

  Args:
    shape: int32 [2], height and width of the image.
    ratio: width ÷ height of the resized window.
    numbers: random float32 [4] in [0, 1).
    min_area: the smallest share of the image's area; shares are uniform between this and 1.
    max_stretch: the window's ratio is between ratio / max_stretch and ratio × max_stretch; its
      logarithm is uniform.

  Returns:
    int32 [4]: top, left, height, width.
  """
  sides = tf.cast(shape, tf.float32)
  area = sides[0] * sides[1] * (min_area + (1.0 - min_area) * numbers[0])
  stretched = ratio * tf.pow(max_stretch, 2.0 * numbers[1] - 1.0)
  height = tf.sqrt(area / stretched)
  return _placed(shape, tf.stack([height, height * stretched]), numbers[2:])


def _placed(shape, sides, places):
  """Places a window: 0 is at the top or left of the image, 1 at the bottom or right."""
  sides = tf.clip_by_value(tf.cast(tf.round(sides), tf.int32), 1, shape)
  room = tf.cast(shape - sides, tf.float32)
  return tf.concat([tf.cast(tf.round(room * places), tf.int32), sides], 0)


def to_float(pixels: tf.Tensor, standardise: Any = None) -> tf.Tensor:
  """Converts pixels in 0..255 to float32.

  Args:
    pixels: uint8 or float32 [b, h, w, c].
    standardise: None for values in 0..1; "image" for a mean of 0 and a deviation of 1 in each
      image; or (means, deviations) of the channels, for values in 0..1.

  Raises:
    SettingError: standardise has another value.
  """
  pixels = tf.cast(pixels, tf.float32) * (1 / 255)
  if standardise is None:
    return pixels
  if standardise == "image":
    return tf.image.per_image_standardization(pixels)
  try:
    means, deviations = standardise
    return (pixels - tf.constant(means, tf.float32)) * (1.0 / tf.constant(deviations, tf.float32))
  except (TypeError, ValueError) as error:
    raise errors.SettingError(
      f'standardise is {standardise!r}: expected None, "image", or (means, deviations) with a '
      "number or one for each channel in each."
    ) from error
