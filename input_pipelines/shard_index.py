"""Reads the index of sharded TFRecords that Octet 0.1.0 wrote: contents, sizes and checksums.

Layout of a folder:

    data-00000-of-00008.tfrecord, ...
    shards.json        {"version": 1, "source": "tfds:cifar10:train", "count": 50000, "features":
                       {"image": "image", "label": [[], "int64"]},
                        "image_shape": [32, 32, 3], "class_names": [...],
                        "shards": [{"file": ..., "count": 6250, "bytes": 14203344, "sha256": ...},
                                   null, ...]}    null: this shard is not written yet
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

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
  features: dict[str, Any]
  image_shape: list[int | None]
  class_names: list[str]
  shards: list[Any]
  version: int = VERSION

  @property
  def is_complete(self) -> bool:
    """Whether all shards are complete."""
    return None not in self.shards


def read(folder: str) -> ShardIndex | None:
  """Reads the index of a folder; None if it has none.

  Raises:
    InputError: the file is damaged, or of another version.
  """
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
    raise errors.InputError(f"Cannot read {path}: {error}") from error


def checksum(path: str) -> str:
  """Returns the SHA-256 of a file, in hexadecimal."""
  digest = hashlib.sha256()
  with tf.io.gfile.GFile(path, "rb") as file:
    while piece := file.read(1 << 24):
      digest.update(piece)
  return digest.hexdigest()


def verify(folder: str, shards: Sequence[Mapping[str, Any]], how: str) -> None:
  """Compares shards with their entries.

  Args:
    folder: of the shards.
    shards: the entries.
    how: "size", "full" (reads all shards) or "off".

  Raises:
    SettingError: how has another value.
    InputError: a shard is missing or differs; the message names it.
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
        f"{path} has {size} bytes, and {NAME} lists {shard['bytes']}: the file is damaged, or "
        f"newer than {NAME}."
      )
    if how == "full" and checksum(path) != shard["sha256"]:
      raise errors.InputError(f"{path} is damaged: its SHA-256 is not the one in {NAME}.")
