"""Keeps the decoded images of a whole set, in memory or in a memory-mapped file.

    images, labels = image_cache.load(source, size=(32, 32, 3), crop="central", cache="memory")

Layout of a cache folder:

    <name>.pixels         uint8 [count, height, width, channels], without a header
    <name>.labels.npy     int32 [count]; written last: if it exists, both files are complete

The name depends on the set and on the settings of decoding. Pixels are uint8, a quarter of the
memory of float32. The system keeps as much of a file in memory as has room.
"""

import hashlib
import os
import shutil
import time
import uuid
from typing import Any

import numpy as np
import psutil
import tensorflow as tf
from absl import logging

from trainer import errors

from . import images, in_memory, labelled_images

# Key → (pixels, labels). Each evaluation of a run calls its input_fn again.
_in_memory: dict[str, tuple[Any, np.ndarray]] = {}


def load(
  source: labelled_images.Source, size: tuple[int, int, int], crop: str | None, cache: str
) -> tuple[tf.Tensor, np.ndarray]:
  """Returns pixels and labels of all examples; the first call decodes them.

  Args:
    source: a set with a known count.
    size: (height, width, channels).
    crop: "central", "squash", or None, see `images.decode`.
    cache: "memory" or a folder.

  Returns:
    Pixels (uint8 [count, height, width, channels]) and labels (int32 [count]).

  Raises:
    SettingError: there is too little memory or disk space.
    InputError: an image is damaged; the message names it.
    OutputError: writing to the folder failed.
  """
  # "upright": a cache of an earlier version has images without their EXIF orientation.
  key = hashlib.sha256(repr((source.key, size, crop, "upright")).encode()).hexdigest()[:16]
  if cache == "memory":
    if key not in _in_memory:
      _check_memory(source, size)
      shape: Any = [source.count, *size]
      pixels = np.empty(shape, np.uint8)
      labels = _fill(source, size, crop, pixels)
      with tf.device("CPU"):
        _in_memory[key] = tf.convert_to_tensor(pixels), labels
    return _in_memory[key]
  path = os.path.join(cache, f"{source.name.replace('/', '_')}-{key}")
  if not _is_complete(path, source, size):
    _write(source, size, crop, path)
  with tf.io.gfile.GFile(path + ".labels.npy", "rb") as file:
    labels = np.load(file)
  # ImmutableConst maps the file into memory instead of reading it.
  with tf.device("CPU"):
    pixels = tf.raw_ops.ImmutableConst(
      dtype=tf.uint8, shape=[source.count, *size], memory_region_name=path + ".pixels"
    )
  return pixels, labels


def _is_complete(path, source, size):
  """Whether both files exist, and the pixels are whole: somebody may have copied a part of them."""
  if not tf.io.gfile.exists(path + ".labels.npy") or not tf.io.gfile.exists(path + ".pixels"):
    return False
  return tf.io.gfile.stat(path + ".pixels").length == source.count * int(np.prod(size))


def clear() -> None:
  """Frees the images in memory."""
  _in_memory.clear()


def _check_memory(source, size):
  # TensorFlow copies the array when it makes a tensor of it.
  needed = 2 * source.count * int(np.prod(size))
  # Not the pages without content: a system that has read many files has few of them.
  free = psutil.virtual_memory().available
  if needed > free:
    raise errors.SettingError(
      f'{source.name}.cache = "memory" needs {needed / 1e9:.1f} GB while it decodes '
      f"{source.count:,} images of {size}, and {free / 1e9:.1f} GB are free: "
      "set it to a folder, or to None to decode in every epoch."
    )


def _write(source, size, crop, path):
  folder = os.path.dirname(path)
  # Not the process ID: processes of two machines may have the same one, and share the folder.
  aside = f"{path}.writing-{uuid.uuid4().hex}"
  needed = source.count * int(np.prod(size))
  try:
    tf.io.gfile.makedirs(folder)
    if os.path.isdir(folder) and needed > shutil.disk_usage(folder).free:
      raise errors.SettingError(
        f"{source.name}.cache = {folder!r} needs {needed / 1e9:.1f} GB, more than its disk has "
        "free."
      )
    with tf.io.gfile.GFile(aside, "wb") as file:
      labels = _fill(source, size, crop, _Appended(file))
    tf.io.gfile.rename(aside, path + ".pixels", overwrite=True)
    with tf.io.gfile.GFile(aside, "wb") as file:
      np.save(file, labels)
    tf.io.gfile.rename(aside, path + ".labels.npy", overwrite=True)
  except (tf.errors.OpError, OSError) as error:
    raise errors.OutputError(
      f"Cannot write the cache of {source.name} to {folder}: {error}"
    ) from error
  finally:
    if tf.io.gfile.exists(aside):
      tf.io.gfile.remove(aside)


class _Appended:
  """A file with an array's assignment; assign slices in order."""

  def __init__(self, file):
    self._file = file

  def __setitem__(self, rows, values):
    self._file.write(values.tobytes())


def _fill(source, size, crop, pixels):
  """Decodes all images into `pixels`; returns the labels."""
  start = time.monotonic()
  labels = np.empty([source.count], np.int32)

  @in_memory.as_written
  def decode(features, label):
    return images.decode(features["image"], size, crop), label

  for first, (batch, batch_labels) in labelled_images.map_examples(source, decode):
    pixels[first : first + len(batch)] = batch
    labels[first : first + len(batch)] = batch_labels
  logging.info(
    "Decoded %d images of %s in %.1f s: %.0f MB",
    source.count,
    source.name,
    time.monotonic() - start,
    labels.size * np.prod(size) / 1e6,
  )
  return labels
