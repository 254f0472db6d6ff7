"""Octet's input pipelines, compared with bare tf.data pipelines that do the same work.

    python -m benchmarks.run input --tfds=/data/tfds

The bare pipelines follow TensorFlow's guide to input performance: parallel calls and prefetch by
AUTOTUNE, shuffle buffers as large as ours. Where all images have one size, both know it.

Left alone, tf.data would keep ever more batches ready in the pauses between slices, up to half of
the memory, and slices would time these. So both sides have a budget for a few batches.
"""

import tensorflow as tf

from benchmarks import results, sides
from input_pipelines import augment, digits, image_cache, image_pipeline, tf_flowers, tfds_images
from trainer.inputs import groups

AUTOTUNE = tf.data.AUTOTUNE
_AHEAD = 32  # batches that wait between slices
BATCH_SIZES = {"digits": 32, "cifar10": 128, "flowers": 32}
_FLOWER = 160


def of_digits(tfds):
  del tfds
  images, labels = digits.load("train")

  def scaled(image, label):
    return {"image": tf.cast(image, tf.float32) / 16}, label

  bare = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).repeat()
  bare = (
    bare.batch(32, drop_remainder=True).map(scaled, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)
  )
  return digits.input_fn({"batch_size": 32}, training=True), bare


def of_cifar10(tfds):
  source = _cifar10(tfds)
  pixels, labels = image_cache.load(source, (32, 32, 3), None, "memory")

  def scaled(image, label):
    return {"image": tf.cast(image, tf.float32) * (1 / 255)}, label

  bare = tf.data.Dataset.from_tensor_slices((pixels, labels)).shuffle(len(labels)).repeat()
  bare = (
    bare.batch(128, drop_remainder=True).map(scaled, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)
  )
  return image_pipeline.batches(source, 128, training=True, cache="memory"), bare


def _cifar10(tfds):
  return tfds_images.source("cifar10", "train[:10000]", tfds, download=False)


def of_flowers(tfds):
  """Photos decoded, cropped, resized, mirrored and shifted in every epoch."""
  builder = tfds_images.prepared_builder("tf_flowers", tfds, False, "tf_flowers.input_fn")
  files = [str(path) for path in builder.info.splits["train"].filepaths]
  spec = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
  }

  def parse(record):
    example = tf.io.parse_single_example(record, spec)
    image = tf.io.decode_jpeg(example["image"], channels=3)
    shape = tf.shape(image)
    side = tf.minimum(shape[0], shape[1])
    image = tf.image.resize_with_crop_or_pad(image, side, side)
    image = tf.image.resize(image, (_FLOWER, _FLOWER)) * (1 / 255)
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_crop(
      tf.pad(image, [[4, 4], [4, 4], [0, 0]], "REFLECT"), [_FLOWER, _FLOWER, 3]
    )
    return {"image": image}, tf.cast(example["label"], tf.int32)

  bare = (
    tf.data.TFRecordDataset(files).shuffle(500).repeat().map(parse, num_parallel_calls=AUTOTUNE)
  )
  bare = bare.batch(32, drop_remainder=True).prefetch(AUTOTUNE)
  ours = tf_flowers.input_fn(
    {"batch_size": 32},
    training=True,
    data_dir=tfds,
    image_size=_FLOWER,
    augment=augment.standard,
    cache=None,
    shuffle_buffer=500,
  )
  return ours, bare


# Name → (title, function, batches in a slice).
CASES = {
  "digits": ("digits in memory", of_digits, 8192),
  "cifar10": ("CIFAR-10 decoded once", of_cifar10, 1024),
  "flowers": ("tf_flowers TFRecords, augmented", of_flowers, 128),
}


def measure(tfds=None, flowers=None, rounds=20, only=tuple(CASES)):
  """Returns the cases' results.Rows.

  Args:
    tfds: TFDS's folder with cifar10 and tf_flowers; None for its own.
    flowers: the same for tf_flowers, if it is elsewhere.
    rounds: slices of each pipeline.
    only: names of CASES.
  """
  rows = []
  for name in only:
    title, _, batches = CASES[name]
    same = {"name": name, "tfds": flowers if name == "flowers" and flowers else tfds}
    slices = sides.alternate(
      {side: sides.Side(read, same | {"side": side}) for side in ("octet", "bare")}, rounds
    )
    rows.append(
      results.Row(
        "input",
        title,
        "bare tf.data",
        sides.ratios(slices, "bare"),
        at_least=0.95,
        note=sides.note(slices, batches * BATCH_SIZES[name], "bare"),
      )
    )
  return rows


def read(turns, name, tfds, side):
  """A loop on the device reads the batches of one of the two pipelines, as in training."""
  _, make, batches = CASES[name]
  tf.random.set_seed(1)
  ours, bare = make(tfds)
  dataset = groups.read_ahead(ours) if side == "octet" else bare  # as training reads them
  options = tf.data.Options()
  options.autotune.ram_budget = _AHEAD * sum(
    spec.shape.num_elements() * spec.dtype.size for spec in tf.nest.flatten(dataset.element_spec)
  )
  iterator = iter(dataset.with_options(options))

  @tf.function(autograph=False)
  def take(iterator):
    def body(done, total):
      features, labels = next(iterator)
      return done + 1, total + features["image"][0, 0, 0, 0] + tf.cast(labels[0], tf.float32)

    start = [tf.constant(0), tf.constant(0.0)]
    return tf.while_loop(lambda done, _: done < batches, body, start)[1]

  while turns.take():
    take(iterator).numpy()
