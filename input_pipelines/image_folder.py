"""Reads images from a folder with a sub-folder for each class.

    run.train_input_fn = @train/image_folder.input_fn
    image_folder.input_fn.directory = "/data/birds"  # birds/heron/1.jpg, birds/swan/7.png, ...
    image_folder.input_fn.image_size = 160
    image_folder.input_fn.validation_share = 0.1
    train/image_folder.input_fn.training = True
    eval/image_folder.input_fn.split = "validation"

Labels number the classes in alphabetical order. If a set has a folder for each split
(birds/train/heron/..., birds/test/heron/...), set `directory` to one split's folder. Images may
also be in sub-folders of a class. Files with a leading dot in their names are ignored. The log
reports the number of images in each class, and the files that TensorFlow cannot decode.
"""

import collections
import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import gin
import numpy as np
import tensorflow as tf
from absl import logging

import trainer
from trainer import errors

from . import hosts, image_pipeline, images, in_memory, labelled_images

SPLITS = ("train", "validation", "all")
ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp")
_CHUNK = 64  # file names in one call
_SHOWN_CLASSES = 10


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  directory: str,
  split: str = "all",
  training: bool = False,
  validation_share: float = 0.0,
  image_size: int | Sequence[int] | None = None,
  channels: int = 3,
  crop: str = "central",
  augment: Callable[..., tf.Tensor] | None = None,
  mix: Callable[..., tuple[tf.Tensor, tf.Tensor]] | None = None,
  standardise: Any = None,
  cache: str | None = "memory",
  input_context: tf.distribute.InputContext | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Reads the images in a folder.

  Args:
    params: dict with "batch_size".
    directory: the folder, local or gs://.
    split: "all"; or "train" or "validation", separated by validation_share.
    training: whether to shuffle all of the files, augment and repeat.
    validation_share: the share of files, 0 to 1, in "validation". A file's split depends on its
      name alone, so adding files does not change the split of others.
    image_size: see `image_pipeline.batches`; required.
    channels: 3, or 1 for grey.
    crop: see `image_pipeline.batches`; "random" in training needs cache = None.
    augment: see `image_pipeline.batches`.
    mix: see `image_pipeline.batches`.
    standardise: see `image_pipeline.batches`.
    cache: see `image_pipeline.batches`.
    input_context: None for one host. Each host reads an even range of the files.
    start: number of examples that all hosts together have seen; the framework sets it.

  Returns:
    A dataset of ({"image": float32 [b, height, width, channels]}, labels int32 [b]).

  Raises:
    SettingError: a setting cannot work.
    InputError: there are no images, or an image is damaged; the message names it.
  """
  names, labels = _images_of(directory, split, validation_share)
  dataset = image_pipeline.batches(
    source_of(directory, names, labels, channels, *hosts.part_of(input_context)),
    params["batch_size"],
    training=training,
    image_size=image_size,
    crop=crop,
    augment=augment,
    mix=mix,
    standardise=standardise,
    cache=cache,
    start=hosts.examples_seen(start, input_context),
  )
  return trainer.mark_labels(dataset, labels)


def _images_of(directory, split, validation_share):
  """Returns the names and labels of the images of a split; for Args and Raises see `input_fn`."""
  if split not in SPLITS:
    raise errors.SettingError(
      f"image_folder.input_fn.split is {split!r}: expected one of {', '.join(SPLITS)}."
    )
  if split != "all" and not 0 < validation_share < 1:
    raise errors.SettingError(
      f"image_folder.input_fn.split = {split!r} needs validation_share, the share of the files, "
      f"between 0 and 1; got {validation_share!r}."
    )
  names, labels, _ = list_images(directory)
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
  return names, labels


def source_of(
  directory: str,
  names: Sequence[str],
  labels: Sequence[int],
  channels: int,
  index: int = 0,
  parts: int = 1,
) -> labelled_images.Source:
  """Makes the source of one part of the images.

  Args:
    directory: the folder.
    names: relative paths of the images.
    labels: of the images.
    channels: 3, or 1 for grey.
    index: of the part.
    parts: number of parts.

  Raises:
    InputError: there are fewer images than parts.
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

    @in_memory.as_written
    def read(position, example):
      features, label = example
      return position, (
        features["row"],
        {"image": images.assert_image_file(tf.io.read_file(features["path"]), features["path"])},
        label,
      )

    return (
      chunks.unbatch()
      .enumerate(seen)
      .map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    )

  return labelled_images.Source(
    name="image_folder.input_fn",
    key=_key(directory, paths, labels),
    count=len(paths),
    image_shape=(None, None, channels),
    stream=stream,
    example_name=lambda position: paths[position],
  )


def list_images(directory: str) -> tuple[list[str], list[int], tuple[str, ...]]:
  """Lists the images in a folder.

  Returns:
    Relative paths in alphabetical order, their labels, and the names of the classes.

  Raises:
    InputError: the folder does not exist, or has no images.
  """
  with _names_are_utf_8(directory):
    return _listed(directory)


@contextlib.contextmanager
def _names_are_utf_8(directory):
  """Tells where TensorFlow found a name that it cannot decode."""
  try:
    yield
  except UnicodeDecodeError as error:
    raise errors.InputError(
      f"{directory} has a file or folder whose name is no UTF-8 ({error.object!r}): rename it."
    ) from error


def _listed(directory):
  classes = class_names(directory)
  names: list[str] = []
  labels: list[int] = []
  left_out: collections.Counter[str] = collections.Counter()
  for label, name in enumerate(classes):
    found = []
    for folder, _, files in tf.io.gfile.walk(os.path.join(directory, name)):
      for file in files:
        if file.startswith("."):
          continue
        ending = os.path.splitext(file)[1].lower()
        if ending in ENDINGS:
          found.append(os.path.join(folder, file))
        else:
          left_out[ending or "without an ending"] += 1
    names += sorted(os.path.relpath(path, directory) for path in found)
    labels += [label] * len(found)
  if not names:
    raise errors.InputError(
      f"{directory} has no images: expected a sub-folder for each class with "
      f"{', '.join(ENDINGS)} files in it; found {len(classes)} sub-folders{_counted(left_out)}."
    )
  of_class = collections.Counter(labels)
  shown = [f"{name} ({of_class[label]})" for label, name in enumerate(classes[:_SHOWN_CLASSES])]
  shown += [f"and {len(classes) - _SHOWN_CLASSES} more"] * (len(classes) > _SHOWN_CLASSES)
  _say_once(f"{directory} has {len(names)} images in {len(classes)} classes: {', '.join(shown)}.")
  if left_out:
    expected = ", ".join(ENDINGS)
    _warn_once(f"Ignored files in {directory}{_counted(left_out)}; expected {expected}.")
  return names, labels, classes


def _counted(left_out):
  """Returns ": 5 .webp, 1 .txt", or "" for no files."""
  counts = ", ".join(f"{count} {ending}" for ending, count in left_out.most_common())
  return counts and f": {counts}"


# Each evaluation of a training lists the images again; the log says the same thing once.
_say_once = functools.cache(logging.info)
_warn_once = functools.cache(logging.warning)


@gin.configurable
@trainer.check_settings
def class_names(directory: str) -> tuple[str, ...]:
  """Returns the names of the classes, in the order of the labels.

  In gin: `run.class_names = @image_folder.class_names()`.

  Raises:
    InputError: the folder does not exist.
  """
  if not tf.io.gfile.isdir(directory):
    raise errors.InputError(f"There is no folder {directory} (image_folder.input_fn.directory).")
  with _names_are_utf_8(directory):
    names = tf.io.gfile.listdir(directory)
  return tuple(
    sorted(
      name.rstrip("/")
      for name in names
      if not name.startswith(".") and tf.io.gfile.isdir(os.path.join(directory, name))
    )
  )


def _place(name):
  """Returns a number in [0, 1) that depends on the name alone, on every system."""
  return (
    int.from_bytes(
      hashlib.blake2b(name.replace(os.sep, "/").encode(), digest_size=8).digest(), "big"
    )
    / 2**64
  )


def _key(directory, paths, labels):
  """Returns a key of the files' names, sizes and times, and of their labels.

  A changed file invalidates a cache. So does a new folder without images: it changes the labels.
  """
  files = [
    (path, stat.length, stat.mtime_nsec) for path in paths for stat in [tf.io.gfile.stat(path)]
  ]
  return directory, hashlib.sha256(repr((files, list(labels))).encode()).hexdigest()
