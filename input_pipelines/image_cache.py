"""Decoded images of a whole set, in memory or in a file that is mapped into it.

    images, labels = image_cache.load(source, size=(32, 32, 3), crop="central", cache="memory")

Layout of a folder that is used as a cache; a name is made from what the images are and how they
were decoded:

    <name>.pixels         uint8 [count, height, width, channels], nothing else
    <name>.labels.npy     int32 [count]; its presence means that both are whole

Pixels are kept as uint8, a quarter of what float32 takes. A cache that is read from disk costs
memory only as far as the system has room.
"""

import hashlib
import os
import shutil
import time

import numpy as np
import tensorflow as tf
from absl import logging

from input_pipelines import images, labelled_images
from trainer import errors

_in_memory = {}  # key → (pixels, labels): each evaluation of a run calls its input_fn anew


def load(source, size, crop, cache):
  """Pixels and labels of all examples, decoded when they are first asked for.

  Args:
    source: an labelled_images.Source whose count is known.
    size: (height, width, channels).
    crop: "central", "squash", or None, see `images.decode`.
    cache: "memory" or a folder.

  Returns:
    (uint8 tensor [count, height, width, channels], int32 array [count]).

  Raises:
    SettingError: memory or disk are too small.
    InputError: an image cannot be decoded; the message names it.
    OutputError: the folder cannot be written.
  """
  key = hashlib.sha256(repr((source.key, size, crop)).encode()).hexdigest()[:16]
  if cache == "memory":
    if key not in _in_memory:
      _check_memory(source, size)
      pixels = np.empty([source.count, *size], np.uint8)
      labels = _fill(source, size, crop, pixels)
      with tf.device("CPU"):
        _in_memory[key] = tf.convert_to_tensor(pixels), labels
    return _in_memory[key]
  path = os.path.join(cache, f"{source.name.replace('/', '_')}-{key}")
  if not tf.io.gfile.exists(path + ".labels.npy"):
    _write(source, size, crop, path)
  with tf.io.gfile.GFile(path + ".labels.npy", "rb") as file:
    labels = np.load(file)
  with tf.device("CPU"):
    pixels = tf.raw_ops.ImmutableConst(
      dtype=tf.uint8, shape=[source.count, *size], memory_region_name=path + ".pixels"
    )
  return pixels, labels


def forget():
  """Frees what is kept in memory."""
  _in_memory.clear()


def _check_memory(source, size):
  needed = source.count * int(np.prod(size))
  free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
  if needed > free:
    raise errors.SettingError(
      f'{source.name}.cache = "memory" needs {needed / 1e9:.1f} GB for {source.count:,} images '
      f"of {size}, and {free / 1e9:.1f} GB are free: "
      "set it to a folder, or to None to decode in every epoch."
    )


def _write(source, size, crop, path):
  folder = os.path.dirname(path)
  aside = f"{path}.writing-{os.getpid()}"
  needed = source.count * int(np.prod(size))
  try:
    tf.io.gfile.makedirs(folder)
    if os.path.isdir(folder) and needed > shutil.disk_usage(folder).free:
      raise errors.SettingError(
        f"{source.name}.cache = {folder!r} needs {needed / 1e9:.1f} GB, "
        "which its disk does not have."
      )
    with tf.io.gfile.GFile(aside, "wb") as file:
      labels = _fill(source, size, crop, _Appended(file))
    tf.io.gfile.rename(aside, path + ".pixels", overwrite=True)
    with tf.io.gfile.GFile(aside, "wb") as file:
      np.save(file, labels)
    tf.io.gfile.rename(aside, path + ".labels.npy", overwrite=True)
  except (tf.errors.OpError, OSError) as error:
    raise errors.OutputError(
      f"The cache of {source.name} cannot be written to {folder}: {error}"
    ) from error
  finally:
    if tf.io.gfile.exists(aside):
      tf.io.gfile.remove(aside)


class _Appended:
  """A file that takes slices which follow one another."""

  def __init__(self, file):
    self._file = file

  def __setitem__(self, rows, values):
    self._file.write(values.tobytes())


def _fill(source, size, crop, pixels):
  """Decodes everything into pixels; returns the labels."""
  start = time.monotonic()
  labels = np.empty([source.count], np.int32)
  for first, (batch, batch_labels) in labelled_images.checked(
    source, lambda features, label: (images.decode(features["image"], size, crop), label)
  ):
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
