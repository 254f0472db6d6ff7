"""tf.contrib.image: turns and transforms images, as AutoAugment does."""

from typing import Any

import tensorflow as tf

_DTYPES = (tf.uint8, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64)


def transform(
  images: Any,
  transforms: Any,
  interpolation: str = "NEAREST",
  output_shape: Any = None,
  name: str | None = None,
) -> tf.Tensor:
  """Transforms images: output pixel (x, y) comes from its projective image; zeros outside.

  Args:
    images: [batch, height, width, channels], [height, width, channels] or [height, width].
    transforms: [8] or [batch, 8], (a0, a1, a2, b0, b1, b2, c0, c1): the pixel comes from
      ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), where k = c0 x + c1 y + 1.
    interpolation: "NEAREST" or "BILINEAR".
    output_shape: [2], the new height and width; None keeps the images' size.

  Raises:
    TypeError: the images have an unsupported dtype or rank.
  """
  with tf.name_scope(name or "transform"):
    given = tf.convert_to_tensor(images, name="images")
    if given.dtype not in _DTYPES:
      raise TypeError(f"Invalid dtype {given.dtype.name}.")
    if given.shape.rank not in (2, 3, 4):
      raise TypeError(f"Images should have rank between 2 and 4; got {given.shape}.")
    batched = _as_batch(given)
    flat = tf.convert_to_tensor(transforms, tf.float32, name="transforms")
    size = tf.shape(batched)[1:3] if output_shape is None else output_shape
    found = tf.raw_ops.ImageProjectiveTransformV3(
      images=batched,
      transforms=flat[tf.newaxis] if flat.shape.rank == 1 else flat,
      output_shape=tf.cast(size, tf.int32),
      fill_value=0.0,
      interpolation=interpolation.upper(),
      fill_mode="CONSTANT",
    )
    if output_shape is None:
      found.set_shape(batched.shape)
    return {2: lambda: found[0, :, :, 0], 3: lambda: found[0], 4: lambda: found}[given.shape.rank]()


def rotate(
  images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None
) -> tf.Tensor:
  """Turns images counterclockwise about their middle, by one angle or one per image, in radians."""
  with tf.name_scope(name or "rotate"):
    images = tf.convert_to_tensor(images, name="images")
    size = tf.cast(tf.shape(_as_batch(images))[1:3], tf.float32)
    return transform(
      images, angles_to_projective_transforms(angles, size[0], size[1]), interpolation
    )


def angles_to_projective_transforms(
  angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> tf.Tensor:
  """Returns [batch, 8]: transforms that turn images of this size about their middle."""
  with tf.name_scope(name or "angles_to_projective_transforms"):
    angles = tf.reshape(tf.convert_to_tensor(angles, tf.float32), [-1])
    x, y = (tf.cast(size, tf.float32) - 1.0 for size in (image_width, image_height))
    sin, cos, zero = tf.sin(angles), tf.cos(angles), tf.zeros_like(angles)
    across = (x - (cos * x - sin * y)) / 2.0
    down = (y - (sin * x + cos * y)) / 2.0
    return tf.stack([cos, -sin, across, sin, cos, down, zero, zero], axis=1)


def _as_batch(images: tf.Tensor) -> tf.Tensor:
  if images.shape.rank == 2:
    return images[tf.newaxis, :, :, tf.newaxis]
  return images[tf.newaxis] if images.shape.rank == 3 else images
