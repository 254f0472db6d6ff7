"""Small files of each format, written by the tests that read them.

Images are flat: the value of their pixels tells which one it is.
"""

import hashlib
import itertools
import json
import os
import pathlib

import numpy as np
import tensorflow as tf


def flat(value, height=8, width=8, channels=3):
  """uint8 [height, width, channels], all of one value."""
  return np.full([height, width, channels], value, np.uint8)


def png(value, *shape):
  """A PNG file of `flat`."""
  return tf.io.encode_png(flat(value, *shape)).numpy()


def jpeg(pixels):
  """A JPEG file of good quality."""
  return tf.io.encode_jpeg(pixels, quality=98).numpy()


def tfds_set(folder, name, version, splits, size=(8, 8), classes=3):
  """Prepares a TFDS set of flat PNG images: splits is a dict of name → values; the label is the
  value modulo classes. size None: they differ.
  """
  import tensorflow_datasets as tfds

  shape = (None, None, 3) if size is None else (*size, 3)
  features = tfds.features.FeaturesDict(
    {
      "image": tfds.features.Image(shape=shape),
      "label": tfds.features.ClassLabel(names=[f"class {number}" for number in range(classes)]),
    }
  )

  def examples(values):
    for value in values:
      yield {"image": flat(value, *(size or (8 + value % 3, 10))), "label": value % classes}

  signature = {"image": tf.TensorSpec(shape, tf.uint8), "label": tf.TensorSpec([], tf.int64)}
  datasets = {
    split: tf.data.Dataset.from_generator(
      lambda values=values: examples(values), output_signature=signature
    )
    for split, values in splits.items()
  }
  tfds.dataset_builders.store_as_tfds_dataset(
    name=name,
    version=version,
    data_dir=str(folder),
    split_datasets=datasets,
    features=features,
    disable_shuffling=True,
  )


def image_folder(folder, classes=("ant", "bee"), each=4):
  """A folder of flat PNG images, numbered over all classes; returns their paths."""
  paths = []
  for name in classes:
    os.makedirs(folder / name)
    for number in range(each):
      path = folder / name / f"{number}.png"
      path.write_bytes(png(len(paths) * 10))
      paths.append(path)
  return paths


def shards(folder, values, count):
  """A folder of flat PNG images with the index that Octet 0.1.0 wrote; labels are modulo 3."""
  entries = []
  for number in range(count):
    path = folder / f"data-{number:05d}-of-{count:05d}.tfrecord"
    part = values[len(values) * number // count : len(values) * (number + 1) // count]
    tfrecord(path, [example(image=png(value), label=[value % 3]) for value in part])
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    entries.append({"file": path.name, "count": len(part), "bytes": len(content), "sha256": digest})
  index = {
    "source": "folder:images",
    "count": len(values),
    "features": {"image": "image", "label": [[], "int64"]},
    "image_shape": [None, None, 3],
    "class_names": ["class 0", "class 1", "class 2"],
    "shards": entries,
    "version": 1,
  }
  (folder / "shards.json").write_text(json.dumps(index, indent=1))


def example(**features):
  """A serialized tf.train.Example; values are bytes, or lists of ints or floats."""

  def feature(value):
    if isinstance(value, bytes):
      return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value[0], int):
      return tf.train.Feature(int64_list=tf.train.Int64List(value=value))
    return tf.train.Feature(float_list=tf.train.FloatList(value=value))

  return tf.train.Example(
    features=tf.train.Features(feature={key: feature(value) for key, value in features.items()})
  ).SerializeToString(deterministic=True)


def tfrecord(path, records):
  """Writes a TFRecord file."""
  with tf.io.TFRecordWriter(str(path)) as writer:
    for record in records:
      writer.write(record)


def values(dataset, scale=255):
  """The values of the flat images of a dataset's batches, in order."""
  return [
    round(float(image.flat[0]) * scale)
    for features, _ in dataset.as_numpy_iterator()
    for image in features["image"]
  ]


def joined(lists):
  """One list of the elements of several."""
  return list(itertools.chain.from_iterable(lists))


def flip_bit(path, place):
  """Harms one byte of a file."""
  content = bytearray(pathlib.Path(path).read_bytes())
  content[place] ^= 0x10
  pathlib.Path(path).write_bytes(content)


def context(index, count):
  """The tf.distribute.InputContext of one of so many hosts."""
  return tf.distribute.InputContext(
    num_input_pipelines=count, input_pipeline_id=index, num_replicas_in_sync=count
  )
