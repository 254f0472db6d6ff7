"""Makes batches of encoded images: decode → crop and resize → augment → scale to floats.

Every data set of images here ends in `batches`, so all have the same settings. With a `cache`, the
first epoch decodes the images; each batch then gathers, augments and scales its images. Without a
cache, each epoch decodes the images in parallel, and the other steps run for whole batches.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import trainer
from trainer import errors

from . import image_cache, images, in_memory, labelled_images, randomness


def batches(
  source: labelled_images.Source,
  batch_size: int,
  *,
  training: bool,
  image_size: int | Sequence[int] | None = None,
  crop: str = "central",
  augment: Callable[..., tf.Tensor] | None = None,
  mix: Callable[..., tuple[tf.Tensor, tf.Tensor]] | None = None,
  standardise: Any = None,
  cache: str | None = None,
  shuffle_buffer: int = 10_000,
  start: int = 0,
) -> tf.data.Dataset:
  """Makes batches of images.

  Args:
    source: the encoded images.
    batch_size: examples in a batch.
    training: True shuffles, augments and repeats without end, in full batches. False gives every
      example once and in order; the last batch may be smaller, and nothing is random.
    image_size: side in pixels, or (height, width); None for the size of the data.
    crop: "central", "squash" or "random", see `images`.
    augment: an augmentation, see `augment`; None for none. Only training uses it.
    mix: mixes each example with a partner, see `augment.mix`; None for none. Only training uses it.
      With a cache, the partner comes from the whole set. Without a cache, it is the previous
      example.
    standardise: None for pixels in 0..1; see `images.to_float`.
    cache: "memory" or a folder to decode once and keep the pixels; None to decode in every epoch,
      as a "random" crop in training requires.
    shuffle_buffer: without a cache: number of examples to choose the next one from. With a cache,
      all examples count.
    start: training: number of this host's examples, over all epochs, to skip, since the training
      has seen them.

  Returns:
    A dataset of ({"image": float32 [b, height, width, channels]}, labels int32 [b]). Without a
    cache it also has the other features of the source. With a mix, the labels are the mix's. The
    dataset has the mark of `trainer.mark_decodable`: exports can decode images.

  Raises:
    SettingError: settings cannot work, or not together.
  """
  images.check_crop(crop, source.name)
  size = images.size_of(image_size, source.image_shape, source.name)
  stored_crop = _stored_crop(source, size, crop, cache, training)
  seed = randomness.base_seed()
  augment, mix = (in_memory.converted(each) for each in (augment, mix))

  def from_file(encoded):
    """Makes the feature from an image file, without randomness; exports use this function."""
    pixels = images.decode(encoded, size, crop)
    return images.to_float(pixels[tf.newaxis], standardise)[0]

  @in_memory.as_written
  def augmented(epoch, example, pixels):
    draw = randomness.Draws(seed, epoch, example)
    return (pixels if augment is None else augment(pixels, draw)), draw

  @in_memory.as_written
  def finish(position, example, features, labels, partner=None):
    pixels, labels = features["image"], tf.cast(labels, tf.int32)
    if training:
      epoch = position // source.count if source.count else position
      pixels, draw = augmented(epoch, example, pixels)
      if partner is not None:
        their_example, their_pixels, their_labels = partner
        others, _ = augmented(epoch, their_example, their_pixels)
        pixels, labels = mix(pixels, labels, others, tf.cast(their_labels, tf.int32), draw)
    return dict(features, image=images.to_float(pixels, standardise)), labels

  if not training:
    mix = None
  if cache is not None:
    stored = image_cache.load(source, size, stored_crop, cache)
    finished = _gathered(stored, batch_size, training, start, seed if mix else None, finish)
  else:
    decoded = _decoded(
      source.stream(training, shuffle_buffer, max(start - 1, 0) if mix else start),
      size,
      stored_crop,
      seed if training else None,
      source.count,
    )
    if mix:
      decoded = _with_partners(decoded, start)
    finished = decoded.batch(batch_size, drop_remainder=training).map(
      finish, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
  return trainer.mark_decodable(finished.prefetch(tf.data.AUTOTUNE), {"image": from_file})


def _stored_crop(source, size, crop, cache, training):
  """Returns the crop of stored images; None if they have the size already."""
  if crop == "random" and cache is not None:
    if training:
      raise errors.SettingError(
        f'{source.name}.crop = "random" takes another part of an image in each epoch, and cache '
        f"= {cache!r} keeps one: set cache = None."
      )
    crop = "central"
  if cache is not None and source.count is None:
    raise errors.SettingError(
      f"{source.name}.cache = {cache!r} needs the number of examples, and the source does not "
      "tell it: set cache = None."
    )
  # Images stored in the right size need no crop; an export may get others.
  return None if crop != "random" and size == tuple(source.image_shape) else crop


def _gathered(stored, batch_size, training, start, seed, finish):
  """Makes the batches of stored pixels; with a seed, each example gets a partner from them."""
  pixels, labels = stored
  count = len(labels)
  with tf.device("CPU"):  # otherwise a GPU would keep the whole set
    labels = tf.constant(labels)

  @in_memory.as_written
  def gather(number, rows):
    position = start + number * batch_size + tf.range(tf.shape(rows)[0], dtype=tf.int64)
    partner = None
    if seed is not None:
      # Another seed than the augmentation's, or both would draw the same numbers. In float64,
      # because a float32 would round the last row up to the count.
      drawn = tf.cast(randomness.Draws(-1 - seed, position // count, rows)(1)[:, 0], tf.float64)
      others = tf.cast(drawn * count, tf.int64)
      partner = others, tf.gather(pixels, others), tf.gather(labels, others)
    own = {"image": tf.gather(pixels, rows)}, tf.gather(labels, rows)
    return finish(position, rows, *own, partner)

  # One function from row numbers to the finished batch, as in `in_memory.batches`.
  rows = in_memory.row_numbers(count, batch_size, training=training, start=start).enumerate()
  return rows.map(gather, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def _with_partners(decoded, start):
  """Pairs each example of a training with the previous one; the very first with itself.

  Args:
    decoded: (position, id, features, label) of each example, from the one before `start` on.
    start: the first position of the result.

  Returns:
    A dataset of (position, id, features, label, (id, image, label)).
  """

  @in_memory.as_written
  def pair(before, element):
    position, example, features, label = element
    own = example, features["image"], label
    partner = tf.cond(tf.equal(position, 0), lambda: own, lambda: before)
    return own, (position, example, features, label, partner)

  _, example, features, label = decoded.element_spec
  nothing = tf.nest.map_structure(
    lambda spec: tf.zeros(spec.shape, spec.dtype), (example, features["image"], label)
  )
  return decoded.scan(nothing, pair).skip(1 if start else 0)


def _decoded(stream, size, crop, seed, count):
  """Decodes the image of each example; seed is None if nothing may be random.

  Returns a dataset of (position, id, features, label).
  """

  @in_memory.as_written
  def decode(position, example):
    identity, features, label = example
    numbers = None
    if crop == "random" and seed is not None:
      epoch = position // count if count else position
      # Another seed than the augmentation's, or both would draw the same numbers.
      numbers = randomness.Draws(-1 - seed, epoch[tf.newaxis], identity[tf.newaxis])(4)[0]
    return (
      position,
      identity,
      dict(features, image=images.decode(features["image"], size, crop, numbers)),
      label,
    )

  return stream.map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
