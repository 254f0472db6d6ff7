"""A folder with one sub-folder for each class, and images in them.

    run.train_input_fn = @train/image_folder.input_fn
    image_folder.input_fn.directory = "/data/birds"  # birds/heron/1.jpg, birds/swan/7.png, ...
    image_folder.input_fn.image_size = 160
    image_folder.input_fn.validation_share = 0.1
    train/image_folder.input_fn.training = True
    eval/image_folder.input_fn.split = "validation"

Labels are the classes' numbers in alphabetical order. Where a set is in several folders
(birds/train/heron/..., birds/test/heron/...), `directory` is one of these. Sub-folders of a class
are looked into; files whose names begin with a dot are not looked at.
"""

import hashlib
import os

import gin
import numpy as np
import tensorflow as tf

from input_pipelines import hosts, image_pipeline, images, in_memory, labelled_images
from trainer import errors

SPLITS = ("train", "validation", "all")
ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp")
_CHUNK = 64  # file names shuffled and labelled in one call


@gin.configurable
def input_fn(
  params,
  directory,
  split="all",
  training=False,
  validation_share=0.0,
  image_size=None,
  channels=3,
  crop="central",
  augment=None,
  standardise=None,
  cache="memory",
  input_context=None,
  start=0,
):
  """Batches of the images in a folder.

  Args:
    params: dict with "batch_size".
    directory: the folder, local or gs://.
    split: "all", or "train" or "validation" to take apart by validation_share.
    training: whether to shuffle all of the files, augment and repeat.
    validation_share: the share of files, 0 to 1, that belong to "validation". Which these are
      follows from their names alone: files that are added later move no other from one split to the
      other.
    image_size, crop, augment, standardise, cache: see `image_pipeline.batches`; image_size is
      needed. "random" in training needs cache = None.
    channels: 3, or 1 for grey.
    input_context: tf.distribute.InputContext, or None for one host; each host reads an even range
      of the files.
    start: examples that all hosts together have seen before; the framework sets it.

  Returns:
    A dataset of ({"image": float32 [b, height, width, channels]}, labels int32 [b]).

  Raises:
    SettingError: a setting cannot work.
    InputError: there are no images, or one cannot be decoded; it is named.
  """
  source = make_source(directory, split, validation_share, channels, input_context)
  return image_pipeline.batches(
    source,
    params["batch_size"],
    training=training,
    image_size=image_size,
    crop=crop,
    augment=augment,
    standardise=standardise,
    cache=cache,
    start=hosts.seen_here(start, input_context),
  )


def make_source(directory, split="all", validation_share=0.0, channels=3, input_context=None):
  """The labelled_images.Source of a split, or of this host's part of it."""
  if split not in SPLITS:
    raise errors.SettingError(
      f"image_folder.input_fn.split is {split!r}: expected one of {', '.join(SPLITS)}."
    )
  if split != "all" and not 0 < validation_share < 1:
    raise errors.SettingError(
      f"image_folder.input_fn.split = {split!r} needs validation_share, the share of the files, "
      f"between 0 and 1; got {validation_share!r}."
    )
  names, labels, _ = listed(directory)
  if split != "all":
    chosen = [
      number
      for number, name in enumerate(names)
      if (_place(name) < validation_share) == (split == "validation")
    ]
    names, labels = [names[number] for number in chosen], [labels[number] for number in chosen]
  if not names:
    raise errors.InputError(
      f"{directory} has no image for the split {split!r} (validation_share {validation_share})."
    )
  return source_of(directory, names, labels, channels, *hosts.part_of(input_context))


def source_of(directory, names, labels, channels, index=0, parts=1):
  """The labelled_images.Source of one of so many parts of files, given by their names below a
  directory.
  """
  first, stop = hosts.even_range(len(names), index, parts)
  paths = [os.path.join(directory, name) for name in names[first:stop]]
  if not paths:
    raise errors.InputError(
      f"{directory} has {len(names)} images in this split, fewer than the "
      f"{parts} hosts that read it."
    )
  labels = labels[first:stop]

  def stream(training, _, seen):
    chunks = in_memory.batches(
      {"path": paths, "row": np.arange(first, stop)},
      np.array(labels, np.int64),
      min(_CHUNK, len(paths)),
      training=training,
      start=seen,
    )

    def read(position, example):
      features, label = example
      return position, (
        features["row"],
        {"image": images.checked_file(tf.io.read_file(features["path"]), features["path"])},
        label,
      )

    return (
      chunks.unbatch()
      .enumerate(seen)
      .map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    )

  return labelled_images.Source(
    name="image_folder.input_fn",
    key=_key(directory, paths),
    count=len(paths),
    image_shape=(None, None, channels),
    stream=stream,
    example_name=lambda position: paths[position],
  )


def listed(directory):
  """(names, labels, classes): relative paths in alphabetical order, the number of each one's class,
  the classes' names.

  Raises:
    InputError: there is no such folder, or nothing in it that could be an image of a class.
  """
  classes = class_names(directory)
  names, labels = [], []
  for label, name in enumerate(classes):
    found = []
    for folder, _, files in tf.io.gfile.walk(os.path.join(directory, name)):
      found += [
        os.path.join(folder, file)
        for file in files
        if file.lower().endswith(ENDINGS) and not file.startswith(".")
      ]
    names += sorted(os.path.relpath(path, directory) for path in found)
    labels += [label] * len(found)
  if not names:
    raise errors.InputError(
      f"{directory} has no images: expected a sub-folder for each class with "
      f"{', '.join(ENDINGS)} files in it; found {len(classes)} sub-folders."
    )
  return names, labels, classes


@gin.configurable
def class_names(directory):
  """The names of the classes, in the order of the labels: `run.class_names =
  @image_folder.class_names()`. InputError: there is no such folder.
  """
  if not tf.io.gfile.isdir(directory):
    raise errors.InputError(f"There is no folder {directory} (image_folder.input_fn.directory).")
  return tuple(
    sorted(
      name.rstrip("/")
      for name in tf.io.gfile.listdir(directory)
      if not name.startswith(".") and tf.io.gfile.isdir(os.path.join(directory, name))
    )
  )


def _place(name):
  """A number in [0, 1) that follows from the name."""
  return (
    int.from_bytes(
      hashlib.blake2b(name.replace(os.sep, "/").encode(), digest_size=8).digest(), "big"
    )
    / 2**64
  )


def _key(directory, paths):
  """Names, sizes and times of the files: a cache is not used after one of them was changed."""
  files = [
    (path, stat.length, stat.mtime_nsec) for path in paths for stat in [tf.io.gfile.stat(path)]
  ]
  return directory, hashlib.sha256(repr(files).encode()).hexdigest()
