"""Images: bytes of a file → uint8 pixels of one size → float32 of a batch.

Crops, of an image of any size:

    "squash"     the whole image, whatever that does to its proportions
    "central"    the largest part in the middle that has the proportions wanted
    "random"     a random part, in training: of an area between a setting and all, with sides in a
                 ratio of 3:4 to 4:3 times that wanted
                 (C. Szegedy et al., "Going Deeper with Convolutions", 2014); "central" otherwise
"""

import gin
import tensorflow as tf

from trainer import errors

CROPS = ("central", "squash", "random")
# JPEG, PNG, GIF; and BMP, whose two letters are looked at apart.
_SIGNATURES = (b"\xff\xd8\xff", b"\x89PN", b"GIF")


def size_of(image_size, shape, gin_name):
  """(height, width, channels) that images are brought to.

  Args:
    image_size: int, (height, width) or None for the size that the data has.
    shape: of the data: (height, width, channels), where height and width may be None and channels
      may too, for three.
    gin_name: whose setting image_size is, for messages.

  Raises:
    SettingError: image_size is no size, or is None where images differ in size.
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


def check_crop(crop, gin_name):
  """SettingError unless crop is one of CROPS."""
  if crop not in CROPS:
    raise errors.SettingError(f"{gin_name}.crop is {crop!r}: expected one of {', '.join(CROPS)}.")


def checked(encoded, path, ordinals):
  """Encoded images (string [n]) as they are, or an error that names the first one that TensorFlow
  has no decoder for.

  Args:
    encoded: string [n].
    path: string scalar, the file that they are from.
    ordinals: int64 [n], their numbers in it.
  """
  known = _are_images(encoded)

  def refuse():
    ordinal = tf.strings.as_string(ordinals[tf.argmin(tf.cast(known, tf.int32))])
    return _refuse(tf.strings.join([path, ": record ", ordinal, " (counted from 0)"]))

  with tf.control_dependencies([tf.cond(tf.reduce_all(known), lambda: True, refuse)]):
    return tf.identity(encoded)


def checked_file(encoded, path):
  """The same for the contents of one file (string scalar)."""
  with tf.control_dependencies(
    [tf.cond(_are_images(encoded), lambda: True, lambda: _refuse(path))]
  ):
    return tf.identity(encoded)


def _are_images(encoded):
  start, two = tf.strings.substr(encoded, 0, 3), tf.strings.substr(encoded, 0, 2)
  return tf.reduce_any(tf.equal(start[..., tf.newaxis], tf.constant(_SIGNATURES)), -1) | tf.equal(
    two, b"BM"
  )


def _refuse(name):
  with tf.control_dependencies(
    [tf.debugging.Assert(False, [tf.strings.join([name, " is no JPEG, PNG, GIF or BMP image"])])]
  ):
    return tf.constant(False)


def decode(encoded, size, crop="central", numbers=None):
  """Decodes, crops and resizes one image; bilinear, without antialiasing.

  Args:
    encoded: string scalar, a JPEG, PNG, GIF (its first frame) or BMP file.
    size: (height, width, channels).
    crop: one of CROPS, or None for images that are of that size already.
    numbers: float32 [4] in [0, 1) for the crop "random"; None for the central one in its place.

  Returns:
    uint8 [height, width, channels].
  """
  height, width, channels = size
  if crop is None:
    return tf.ensure_shape(_decoded(encoded, channels), size)
  if crop == "squash":
    pixels = _decoded(encoded, channels)
  elif crop == "random" and numbers is not None:
    pixels = _window(encoded, channels, lambda shape: random_window(shape, width / height, numbers))
  else:
    pixels = _window(encoded, channels, lambda shape: central_window(shape, width / height))
  as_is = tf.reduce_all(tf.equal(tf.shape(pixels)[:2], (height, width)))
  return tf.ensure_shape(
    tf.cond(as_is, lambda: pixels, lambda: _resized(pixels, height, width)), size
  )


def _decoded(encoded, channels):
  return tf.io.decode_image(encoded, channels=channels, expand_animations=False)


def _resized(pixels, height, width):
  return tf.cast(tf.round(tf.image.resize(pixels, (height, width))), tf.uint8)


def _window(encoded, channels, choose):
  """Decodes a part of an image: of a JPEG no more than that part."""

  def of_jpeg():
    window = choose(tf.image.extract_jpeg_shape(encoded)[:2])
    return tf.image.decode_and_crop_jpeg(encoded, window, channels=channels)

  def of_others():
    pixels = _decoded(encoded, channels)
    top, left, height, width = tf.unstack(choose(tf.shape(pixels)[:2]))
    return pixels[top : top + height, left : left + width]

  return tf.cond(tf.io.is_jpeg(encoded), of_jpeg, of_others)


def central_window(shape, ratio):
  """int32 [4] (top, left, height, width): the largest window in the middle whose width ÷ height
  is ratio. shape: int32 [2], height and width.
  """
  sides = tf.cast(shape, tf.float32)
  height = tf.minimum(sides[0], sides[1] / ratio)
  return _placed(shape, tf.stack([height, height * ratio]), tf.constant([0.5, 0.5]))


@gin.configurable
def random_window(shape, ratio, numbers, min_area=0.25, max_stretch=4 / 3):
  """int32 [4] (top, left, height, width): a random window, cut off where it would be larger than
  the image.

  Args:
    shape: int32 [2], height and width of the image.
    ratio: width ÷ height that the window will be brought to.
    numbers: float32 [4] in [0, 1).
    min_area: the least share of the image's area; shares are uniform between this and 1.
    max_stretch: how far the window's ratio may be from `ratio`, either way; its logarithm is
      uniform.
  """
  sides = tf.cast(shape, tf.float32)
  area = sides[0] * sides[1] * (min_area + (1.0 - min_area) * numbers[0])
  stretched = ratio * tf.pow(max_stretch, 2.0 * numbers[1] - 1.0)
  height = tf.sqrt(area / stretched)
  return _placed(shape, tf.stack([height, height * stretched]), numbers[2:])


def _placed(shape, sides, places):
  """A window with these sides; places: 0 at the top or left of what room there is, 1 at its end."""
  sides = tf.clip_by_value(tf.cast(tf.round(sides), tf.int32), 1, shape)
  room = tf.cast(shape - sides, tf.float32)
  return tf.concat([tf.cast(tf.round(room * places), tf.int32), sides], 0)


def to_float(pixels, standardise=None):
  """float32 from pixels in 0..255 (uint8 or float32, [b, h, w, c]).

  Args:
    standardise: None for 0..1; "image" for a mean of 0 and a deviation of 1 in each image; or
      (means, deviations), of the channels in 0..1.

  Raises:
    SettingError: standardise is none of these.
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
