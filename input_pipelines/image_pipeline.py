"""From encoded images to batches: decode → crop and resize → augment → scale to floats.

Every data set of images here ends in `batches`, and so has the same settings. Two ways lead there:
decoded once (`cache`), then gathered, augmented and scaled by the batch; or decoded in every epoch,
each image by itself in parallel, and the rest by the batch.
"""

import tensorflow as tf

import trainer
from input_pipelines import image_cache, images, in_memory, randomness
from trainer import errors


def batches(
  source,
  batch_size,
  *,
  training,
  image_size=None,
  crop="central",
  augment=None,
  standardise=None,
  cache=None,
  shuffle_buffer=10_000,
  start=0,
):
  """Batches of images.

  Args:
    source: a labelled_images.Source.
    batch_size: examples in a batch.
    training: whether to shuffle, augment and repeat without end, in full batches. Otherwise every
      example comes once, in order, the last batch may be smaller, and nothing is random.
    image_size: side in pixels, (height, width), or None for the size that the data has.
    crop: "central", "squash" or "random", see `images`.
    augment: see `augment`; None for none. Without effect if not training.
    standardise: None for pixels in 0..1; see `images.to_float`.
    cache: "memory" or a folder to decode once and keep the pixels; None to decode in every epoch. A
      "random" crop in training takes None.
    shuffle_buffer: examples among which the next is chosen, where there is no cache; with one it is
      all of them.
    start: training: examples of this host's part, over all epochs, that come before the first one,
      as after a run that is continued.

  Returns:
    A dataset of ({"image": float32 [b, height, width, channels]}, labels int32 [b]), with what
    other features the source has if there is no cache; marked as decodable from encoded images, see
    `trainer.mark_decodable`.

  Raises:
    SettingError: settings that cannot work.
  """
  images.check_crop(crop, source.name)
  wanted_crop = crop
  size = images.size_of(image_size, source.image_shape, source.name)
  if crop == "random" and cache is not None:
    if training:
      raise errors.SettingError(
        f'{source.name}.crop = "random" takes another part of an image in each epoch, and cache '
        f"= {cache!r} keeps one: set cache = None."
      )
    crop = "central"
  if crop != "random" and size == tuple(source.image_shape):
    crop = None
  if cache is not None and source.count is None:
    raise errors.SettingError(
      f"{source.name}.cache = {cache!r} needs the number of examples, and "
      "nothing tells it: set cache = None."
    )
  seed = randomness.base_seed()

  def from_file(encoded):
    """An image as the model gets it where nothing is random: an export decodes what it is sent
    with this function.
    """
    pixels = images.decode(encoded, size, wanted_crop)
    return images.to_float(pixels[tf.newaxis], standardise)[0]

  def finish(position, example, features, labels):
    pixels = features["image"]
    if training and augment is not None:
      epoch = position // source.count if source.count else position
      pixels = augment(pixels, randomness.Draws(seed, epoch, example))
    return dict(features, image=images.to_float(pixels, standardise)), tf.cast(labels, tf.int32)

  if cache is not None:
    pixels, labels = image_cache.load(source, size, crop, cache)
    return trainer.mark_decodable(
      _gathered(pixels, labels, batch_size, training, start, finish), {"image": from_file}
    )
  decoded = _decoded(
    source.stream(training, shuffle_buffer, start),
    size,
    crop,
    seed if training else None,
    source.count,
  )
  decoded = decoded.batch(batch_size, drop_remainder=training)
  decoded = decoded.map(finish, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(
    tf.data.AUTOTUNE
  )
  return trainer.mark_decodable(decoded, {"image": from_file})


def _gathered(pixels, labels, batch_size, training, start, finish):
  with tf.device("CPU"):  # not where a GPU would keep the whole set
    labels = tf.constant(labels)

  def gather(number, rows):
    position = start + number * batch_size + tf.range(tf.shape(rows)[0], dtype=tf.int64)
    return finish(position, rows, {"image": tf.gather(pixels, rows)}, tf.gather(labels, rows))

  # One function from row numbers to the finished batch, as in `in_memory.batches`.
  rows = in_memory.row_numbers(len(labels), batch_size, training=training, start=start).enumerate()
  return rows.map(gather, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(
    tf.data.AUTOTUNE
  )


def _decoded(stream, size, crop, seed, count):
  """(position, id, features, label) of each example, its image decoded; seed is None if nothing
  may be random.
  """

  def decode(position, example):
    identity, features, label = example
    numbers = None
    if crop == "random" and seed is not None:
      epoch = position // count if count else position
      # The complement of the seed: other numbers than those of the augmentation that follows.
      numbers = randomness.Draws(-1 - seed, epoch[tf.newaxis], identity[tf.newaxis])(4)[0]
    return (
      position,
      identity,
      dict(features, image=images.decode(features["image"], size, crop, numbers)),
      label,
    )

  return stream.map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
