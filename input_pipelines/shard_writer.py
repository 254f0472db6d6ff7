"""Writes shards of labelled images one after the other, each completely or not at all."""

import dataclasses
import functools
import os
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors

from . import image_folder, in_memory, labelled_images, shard_index, tfds_images

_FEATURES = {"image": "image", "label": [[], "int64"]}
_ORDER_SEED = 0
# A name may end in a version: "mnist:3.0.1".
_TFDS = re.compile(r"(?P<name>[^:]*(:\d[\d.*]*)?)(:(?P<split>.*))?")


@dataclasses.dataclass(frozen=True)
class Input:
  """A set of images to write.

  Attributes:
    name: "tfds:cifar10:train", "folder:/photos/birds".
    part: `part(index, parts)` → the source of one of `parts` parts.
    class_names: names of the classes.
  """

  name: str
  part: Callable[[int, int], labelled_images.Source]
  class_names: tuple[str, ...]


def parse_source(text: str, data_dir: str | None = None, channels: int = 3) -> Input:
  """Finds the set that `tfds:NAME[:SPLIT]` or `folder:PATH` describes.

  Args:
    text: such a description.
    data_dir: the folder of TensorFlow Datasets; None for its default.
    channels: of the images in a folder: 3, or 1 for grey.

  Raises:
    SettingError: text is neither.
    InputError: there is no such set.
  """
  kind, _, rest = text.partition(":")
  if kind == "tfds" and rest:
    found = _TFDS.fullmatch(rest)
    name, split = found.group("name", "split") if found else (rest, None)
    split = split or "train"

    def part(index, parts):
      context = tf.distribute.InputContext(parts, index, parts)
      return tfds_images.source(name, split, data_dir, input_context=context, gin_name="--source")

    return Input(f"tfds:{name}:{split}", part, tfds_images.class_names(name, data_dir))
  if kind == "folder" and rest:
    names, labels, classes = image_folder.list_images(rest)
    order = np.random.RandomState(_ORDER_SEED).permutation(len(names))
    names, labels = [names[number] for number in order], [labels[number] for number in order]
    return Input(
      text, functools.partial(image_folder.source_of, rest, names, labels, channels), classes
    )
  raise errors.SettingError(f"--source={text}: expected tfds:NAME, tfds:NAME:SPLIT or folder:PATH.")


def write(source: Input, output: str, shards: int) -> shard_index.ShardIndex:
  """Writes the missing shards.

  Args:
    source: the images.
    output: the folder; created if needed.
    shards: number of files.

  Returns:
    The index of the folder.

  Raises:
    SettingError: there are fewer images than shards, or the folder has shards of another set.
    InputError: an image is damaged; the message names it.
    OutputError: writing to the folder failed.
  """
  whole: Any = source.part(0, 1)
  if shards > whole.count:
    raise errors.SettingError(
      f"--shards={shards} for {whole.count} examples: each shard needs one at least."
    )
  index = shard_index.ShardIndex(
    source.name,
    whole.count,
    _FEATURES,
    list(whole.image_shape),
    list(source.class_names),
    [None] * shards,
  )
  try:
    tf.io.gfile.makedirs(output)
    index.shards = _written_before(output, index)
    start, done = time.monotonic(), 0
    for number in range(shards):
      if index.shards[number] is None:
        path = os.path.join(output, shard_index.shard_name(number, shards))
        count = _write_shard(source.part(number, shards), path)
        index.shards[number] = shard_index.entry(path, count)
        shard_index.write(output, index)
        done += count
        logging.info("%s", _progress(index, number, done, time.monotonic() - start))
  except (tf.errors.OpError, OSError) as error:
    if isinstance(error, errors.OctetError):
      raise
    raise errors.OutputError(f"Cannot write {output} (--output): {error}") from error
  logging.info(
    "%s: %d examples in %d shards, %.1f MB.",
    output,
    index.count,
    shards,
    sum(shard["bytes"] for shard in index.shards) / 1e6,
  )
  return index


def _written_before(output, index):
  """Returns the entries of a folder's complete shards, None for each other shard."""
  before = shard_index.read(output)
  if before is None:
    return index.shards
  same = [dataclasses.replace(one, shards=[None] * len(one.shards)) for one in (before, index)]
  if same[0] != same[1]:
    raise errors.SettingError(
      f"{output} has {before.count} examples of {before.source} in {len(before.shards)} shards; "
      f"the flags select {index.count} of {index.source} in {len(index.shards)}: choose another "
      "--output, or remove it."
    )
  entries = [
    entry if entry is not None and _is_there(output, entry) else None for entry in before.shards
  ]
  logging.info(
    "%s: %d of %d shards are there already.",
    output,
    len(entries) - entries.count(None),
    len(entries),
  )
  return entries


def _is_there(output, entry):
  path = os.path.join(output, entry["file"])
  return tf.io.gfile.exists(path) and tf.io.gfile.stat(path).length == entry["bytes"]


def _write_shard(source, path):
  """Writes a shard; returns the number of its examples."""

  @in_memory.as_written
  def check(features, label):
    # Without the shape, TensorFlow would not decode the image, and would not find damage.
    return (
      features["image"],
      label,
      tf.shape(tf.io.decode_image(features["image"], expand_animations=False)),
    )

  aside = path + ".writing"
  with tf.io.TFRecordWriter(aside) as writer:
    for _, (images, labels, _) in labelled_images.map_examples(source, check):
      for image, label in zip(images, labels, strict=True):
        features = {
          "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
          "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        # Otherwise each process orders the features in its own way, and the checksums differ.
        writer.write(example.SerializeToString(deterministic=True))
  tf.io.gfile.rename(aside, path, overwrite=True)
  return source.count


def _progress(index, number, done, seconds):
  left = index.count - sum(shard["count"] for shard in index.shards if shard is not None)
  rate = done / seconds
  return (
    f"shard {number + 1} of {len(index.shards)}: {index.shards[number]['count']:,} examples, "
    f"{index.shards[number]['bytes'] / 1e6:.1f} MB; "
    f"{rate:,.0f} examples/s, {left / rate:.0f} s left"
  )
