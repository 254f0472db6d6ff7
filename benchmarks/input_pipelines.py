"""Octet's input pipelines, compared with bare tf.data pipelines that do the same work.

One run alternates between the two.

    python -m benchmarks.input_pipelines --tfds=/data/tfds --pairs=40
    python -m benchmarks.input_pipelines --only=digits --only=cifar10

In each pair, both return the same number of batches, which take about `--seconds`; the first side
changes from pair to pair. The figure is ours ÷ bare in examples a second by the clock, as the
median over the pairs. The note has the fastest tenth of each side's slices, because other work on
the machine makes a slice slower and never faster, and the CPU time of all threads, where less is
better. The bare pipelines follow TensorFlow's guide to input performance: parallel calls and
prefetch by AUTOTUNE, shuffle buffers as large as ours. Where all images have one size, both know
it.

Left alone, tf.data would keep ever more batches ready in the pauses between slices, up to half of
the memory, and slices would time these. So both sides have a budget for only the batches that they
read before the clock starts. An impossible decoding rate shows that `--seconds` is too small.
"""

import argparse
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

from benchmarks import results, sides
from input_pipelines import (
  augment,
  digits,
  image_cache,
  image_pipeline,
  tf_flowers,
  tfds_images,
  tfrecord,
)
from trainer import errors
from trainer.inputs import groups

AUTOTUNE = tf.data.AUTOTUNE
_WARM = 32  # batches before the clock starts: they were waiting
_FLOWER = 160


def of_digits(folder, tfds):
  images, labels = digits.load("train")

  def scaled(image, label):
    return {"image": tf.cast(image, tf.float32) / 16}, label

  bare = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).repeat()
  bare = (
    bare.batch(32, drop_remainder=True).map(scaled, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)
  )
  return digits.input_fn({"batch_size": 32}, training=True), bare, 32


def of_cifar10(folder, tfds):
  source = _cifar10(tfds)
  pixels, labels = image_cache.load(source, (32, 32, 3), None, "memory")

  def scaled(image, label):
    return {"image": tf.cast(image, tf.float32) * (1 / 255)}, label

  bare = tf.data.Dataset.from_tensor_slices((pixels, labels)).shuffle(len(labels)).repeat()
  bare = (
    bare.batch(128, drop_remainder=True).map(scaled, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)
  )
  return image_pipeline.batches(source, 128, training=True, cache="memory"), bare, 128


def of_cifar10_jpeg(folder, tfds):
  """Eight files of JPEG images, decoded in every epoch."""
  stored, labels = image_cache.load(_cifar10(tfds), (32, 32, 3), None, "memory")
  for number in range(8):
    with tf.io.TFRecordWriter(os.path.join(folder, f"{number}.tfrecord")) as writer:
      for image, label in zip(stored[number::8], labels[number::8], strict=True):
        jpeg = tf.io.encode_jpeg(image, quality=95).numpy()
        features = {
          "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg])),
          "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        writer.write(example.SerializeToString())
  spec = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
  }

  def parse(record):
    example = tf.io.parse_single_example(record, spec)
    image = tf.ensure_shape(tf.io.decode_jpeg(example["image"], channels=3), [32, 32, 3])
    return {"image": tf.cast(image, tf.float32) * (1 / 255)}, tf.cast(example["label"], tf.int32)

  bare = tf.data.Dataset.list_files(os.path.join(folder, "*.tfrecord"))
  bare = bare.interleave(tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=AUTOTUNE)
  bare = (
    bare.shuffle(5000)
    .repeat()
    .map(parse, num_parallel_calls=AUTOTUNE)
    .batch(128, drop_remainder=True)
    .prefetch(AUTOTUNE)
  )
  return (
    tfrecord.input_fn(
      {"batch_size": 128},
      folder,
      features={"image": "image", "label": ((), "int64")},
      training=True,
      image_size=32,
      shuffle_buffer=5000,
    ),
    bare,
    128,
  )


def _cifar10(tfds, input_context=None):
  return tfds_images.source(
    "cifar10", "train[:10000]", tfds, download=False, input_context=input_context
  )


def of_flowers(folder, tfds):
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
  return ours, bare, 32


CASES = {
  "digits": ("digits in memory", of_digits),
  "cifar10": ("CIFAR-10 decoded once", of_cifar10),
  "cifar10_jpeg": ("CIFAR-10 JPEG TFRecords", of_cifar10_jpeg),
  "flowers": ("tf_flowers TFRecords, augmented", of_flowers),
}


class Side:
  """One of the two pipelines. A loop on the device reads the batches, as in training."""

  def __init__(self, dataset):
    options = tf.data.Options()
    options.autotune.ram_budget = _WARM * sum(
      spec.shape.num_elements() * spec.dtype.size for spec in tf.nest.flatten(dataset.element_spec)
    )
    self._iterator = iter(dataset.with_options(options))

    @tf.function(autograph=False)
    def take(iterator, count):
      def body(done, total):
        features, labels = next(iterator)
        return done + 1, total + features["image"][0, 0, 0, 0] + tf.cast(labels[0], tf.float32)

      return tf.while_loop(lambda done, _: done < count, body, [tf.constant(0), tf.constant(0.0)])[
        1
      ]

    self._take = take

  def seconds(self, batches):
    """Returns (wall-clock, CPU) seconds for some batches.

    CPU time is of all threads, until they rest.
    """
    cpu = time.process_time()
    self._take(self._iterator, tf.constant(_WARM))
    wall = time.perf_counter()
    self._take(self._iterator, tf.constant(batches))
    wall = time.perf_counter() - wall
    sides.until_idle(limit=60)  # threads fill their buffers ahead
    return wall, (time.process_time() - cpu) * batches / (batches + _WARM)


def compare(ours, bare, pairs, seconds):
  """Returns (walls, CPU times, batches in a slice): arrays [2, pairs] of seconds, ours and bare."""
  both = [Side(ours), Side(bare)]
  for side in both:
    side.seconds(_WARM)
  batches = 2 * _WARM
  while (
    min(side.seconds(batches)[0] for side in both for _ in range(2)) < seconds / 2
    and batches < 1 << 14
  ):
    batches *= 2
  measured = np.zeros([2, 2, pairs])
  for pair in range(pairs):
    for index in (0, 1) if pair % 2 else (1, 0):
      measured[:, index, pair] = both[index].seconds(batches)
  return *measured, batches


def measure(tfds=None, flowers=None, pairs=20, seconds=0.5, only=None):
  """Returns the cases' results.Rows.

  Args:
    tfds: TFDS's folder with cifar10 and tf_flowers; None for its own.
    flowers: the same for tf_flowers, if it is elsewhere.
    pairs: slices of each pipeline.
    seconds: about the length of a slice.
    only: names of CASES; None for all. Prints the names that it skips because their data set is
      missing.
  """
  rows = []
  for name in only or CASES:
    title, make = CASES[name]
    tf.random.set_seed(1)
    with tempfile.TemporaryDirectory() as folder:
      try:
        ours, bare, batch = make(folder, flowers if name == "flowers" and flowers else tfds)
      except errors.InputError as error:
        print(f"Left out {title}: {error}", flush=True)
        continue
      # As training reads them.
      walls, work, batches = compare(groups.read_ahead(ours), bare, pairs, seconds)
    ours_at_best, bare_at_best = batches * batch / np.percentile(walls, 10, axis=1)
    rows.append(
      results.Row(
        "input",
        f"{title}, batch {batch}",
        "bare tf.data",
        tuple((walls[1] / walls[0]).tolist()),
        at_least=0.95,
        note=f"at best {ours_at_best:,.0f} and {bare_at_best:,.0f} examples/s; CPU time "
        f"{np.median(work[0] / work[1]):.2f}",
      )
    )
  return rows


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--tfds", help="TFDS's folder with cifar10 and tf_flowers; default: its own")
  parser.add_argument("--flowers", help="the same for tf_flowers, if it is elsewhere")
  parser.add_argument("--pairs", type=int, default=20)
  parser.add_argument("--seconds", type=float, default=0.5)
  parser.add_argument("--only", action="append", choices=CASES)
  results.show(measure(**vars(parser.parse_args())))


if __name__ == "__main__":
  main()
