"""Writes a checkpoint so that it exists completely or not at all, and removes checkpoints.

    .writing-model.ckpt-1200/model.ckpt-1200.*    its files until they are complete
    model.ckpt-1200.*                             after the commit

A killed process leaves the folder. The next process commits or removes it, see `recover`.
"""

import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

from trainer import errors
from trainer.checkpoints import file_names, reader
from trainer.io import files, storage


def save(path: str, values: Mapping[str, tf.Tensor]) -> None:
  """Writes a checkpoint and commits it.

  Raises:
    OpError: TensorFlow cannot write it.
    StorageError: the storage of a URL failed for too long.
  """
  directory, name = os.path.split(path)
  aside = os.path.join(directory, f"{files.WRITING}{name}")
  storage.makedirs(aside)
  written = os.path.join(aside, name)

  def write():
    with tf.device("/cpu:0"):
      tf.raw_ops.SaveV2(
        prefix=written,
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=list(values.values()),
      )

  storage.retry("write the checkpoint", path, write)
  commit(written, path)
  storage.rmtree(aside)


def commit(written: str, path: str) -> None:
  """Moves a checkpoint from its folder to its place; continues an interrupted move.

  The order is important. Remove the old index first: it does not fit the new data. Move the new
  index last: the checkpoint exists as soon as its index does.
  """
  if storage.exists(path + ".index"):
    storage.remove(path + ".index")
  if storage.exists(written + file_names.DATA):
    storage.rename(written + file_names.DATA, path + file_names.DATA, overwrite=True)
  storage.rename(written + ".index", path + ".index", overwrite=True)


def recover(directory: str) -> None:
  """Commits the complete checkpoints that a killed process left; removes its other leftovers."""
  for name in [name.rstrip("/") for name in storage.listdir(directory)]:
    if not name.startswith(files.WRITING):
      continue
    aside, own = os.path.join(directory, name), name.removeprefix(files.WRITING)
    written, path = os.path.join(aside, own), os.path.join(directory, own)
    if _is_complete(written, path):
      commit(written, path)
    storage.rmtree(aside)
  files.remove_litter(directory)


def _is_complete(written, path):
  """Returns whether the checkpoint in the folder is complete; its move may have stopped midway."""
  if not storage.exists(written + ".index"):
    return False
  # `commit` moves the data before the index: without data here, a process died between the two.
  if not storage.exists(written + file_names.DATA):
    return storage.exists(path + file_names.DATA)
  try:
    reader.verify(written)
  except errors.CheckpointDamagedError:
    return False
  return True


def remove(path: str, data_files: Sequence[str]) -> None:
  """Removes a checkpoint. The index goes first: without it the rest is no checkpoint."""
  for name in [path + ".index", *data_files]:
    storage.remove(name)
