"""The JSON file beside sharded TFRecords: what they hold, and how to tell that they still do.

Layout of a folder:

    data-00000-of-00008.tfrecord, ...
    shards.json        {"version": 1, "source": "tfds:cifar10:train", "count": 50000, "features":
                       {"image": "image", "label": [[], "int64"]},
                        "image_shape": [32, 32, 3], "class_names": [...],
                        "shards": [{"file": ..., "count": 6250, "bytes": 14203344, "sha256": ...},
                                   null, ...]}    null: not written yet
"""

import dataclasses
import hashlib
import json
import os

import tensorflow as tf

from trainer import errors

NAME = "shards.json"
VERSION = 1
VERIFY = ("size", "full", "off")


@dataclasses.dataclass
class ShardIndex:
  """The contents of a shards.json; see the module."""

  source: str
  count: int
  features: dict
  image_shape: list
  class_names: list
  shards: list
  version: int = VERSION

  @property
  def complete(self):
    """Whether all shards are written."""
    return None not in self.shards


def shard_name(number, count):
  """The file name of a shard."""
  return f"data-{number:05d}-of-{count:05d}.tfrecord"


def read(folder):
  """The ShardIndex of a folder, or None if there is none; InputError if it cannot be understood."""
  path = os.path.join(folder, NAME)
  if not tf.io.gfile.exists(path):
    return None
  try:
    with tf.io.gfile.GFile(path) as file:
      index = ShardIndex(**json.load(file))
    if index.version != VERSION:
      raise ValueError(f"version {index.version}, expected {VERSION}")
    return index
  except (ValueError, TypeError, tf.errors.OpError) as error:
    raise errors.InputError(f"{path} cannot be read: {error}") from error


def write(folder, index):
  """Writes the index of a folder, whole or not at all."""
  path = os.path.join(folder, NAME)
  with tf.io.gfile.GFile(path + ".writing", "w") as file:
    file.write(json.dumps(dataclasses.asdict(index), indent=1) + "\n")
  tf.io.gfile.rename(path + ".writing", path, overwrite=True)


def entry(path, count):
  """The entry of a shard that has been written."""
  return {
    "file": os.path.basename(path),
    "count": count,
    "bytes": tf.io.gfile.stat(path).length,
    "sha256": checksum(path),
  }


def checksum(path):
  """SHA-256 of a file, in hexadecimal."""
  digest = hashlib.sha256()
  with tf.io.gfile.GFile(path, "rb") as file:
    while piece := file.read(1 << 24):
      digest.update(piece)
  return digest.hexdigest()


def verify(folder, shards, how):
  """Compares shards with their entries.

  Args:
    folder: where they are.
    shards: list of entries.
    how: "size", "full" (which reads all of them) or "off".

  Raises:
    InputError: a shard is missing or differs; it is named.
  """
  if how not in VERIFY:
    raise errors.SettingError(
      f"verify is {how!r}: expected one of {', '.join(VERIFY)} (gin: tfrecord.input_fn.verify)."
    )
  for shard in shards if how != "off" else ():
    path = os.path.join(folder, shard["file"])
    if not tf.io.gfile.exists(path):
      raise errors.InputError(f"{path} is missing: {NAME} lists it.")
    size = tf.io.gfile.stat(path).length
    if size != shard["bytes"]:
      raise errors.InputError(
        f"{path} has {size} bytes, and {NAME} tells of {shard['bytes']}: it "
        "is damaged or was written anew."
      )
    if how == "full" and checksum(path) != shard["sha256"]:
      raise errors.InputError(f"{path} is damaged: its SHA-256 is not the one in {NAME}.")
