"""Checkpoints: every variable under its name, in TensorFlow's own format, whole or not there.

Layout of a model_dir:

    model.ckpt-1200.index                   names, shapes, dtypes, checksums; its presence means that the checkpoint is whole
    model.ckpt-1200.data-00000-of-00001     the values, float32 variables as float32 whatever the precision of the run
    checkpoint                              which one is the newest, for tf.train.latest_checkpoint; paths are relative, so that the folder can move

A key is a variable's name (`conv2d_1/kernel`): it tells nothing of devices or replicas, so that what eight cores wrote opens on one.
`tf.train.load_checkpoint` reads it, and so does `tf.compat.v1.train.Saver`.
"""

import dataclasses
import os
import re

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors

PREFIX = "model.ckpt"
_INDEX = re.compile(re.escape(PREFIX) + r"-(\d+)\.index")
_WRITING = ".writing-"


@dataclasses.dataclass(frozen=True)
class RestoreReport:
  """What a restore matched.

  Attributes:
    path: the checkpoint.
    matched: names that were restored.
    unexpected: names in the checkpoint that the model does not have.
  """

  path: str
  matched: list[str]
  unexpected: list[str]

  def __str__(self):
    text = f"Restored {len(self.matched)} variables from {self.path}"
    return text + (f"; {len(self.unexpected)} in it were not asked for" if self.unexpected else "")


class CheckpointDirectory:
  """The checkpoints of one model_dir. Nothing is read or written before a method is called.

  Args:
    directory: path, local or of any file system that tf.io.gfile knows.
    keep: how many of the newest are kept; 0 keeps all.
  """

  def __init__(self, directory, keep=5):
    self.directory = directory
    self._keep = keep

  def steps(self):
    """Steps of the checkpoints that are there, oldest first."""
    try:
      names = tf.io.gfile.listdir(self.directory)
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
      return []
    return sorted(int(match[1]) for match in map(_INDEX.fullmatch, names) if match)

  def path(self, step):
    """The path of the checkpoint of a step, as `checkpoint_path` arguments take it."""
    return os.path.join(self.directory, f"{PREFIX}-{step}")

  def latest(self):
    """The path of the newest checkpoint, or None."""
    steps = self.steps()
    return self.path(steps[-1]) if steps else None

  def save(self, step, values):
    """Writes values and forgets the oldest checkpoints.

    Args:
      step: int, the global step.
      values: dict of name → tensor.

    Returns:
      The checkpoint's path.

    Raises:
      OutputError: it cannot be written; what was there before is as it was.
    """
    path = self.path(step)
    aside = os.path.join(self.directory, f"{_WRITING}{PREFIX}-{step}")
    try:
      tf.io.gfile.makedirs(aside)
      written = os.path.join(aside, f"{PREFIX}-{step}")
      tf.raw_ops.SaveV2(prefix=written, tensor_names=list(values), shape_and_slices=[""] * len(values), tensors=list(values.values()))
      # The index last: with it the checkpoint is there.
      for ending in (".data-00000-of-00001", ".index"):
        tf.io.gfile.rename(written + ending, path + ending, overwrite=True)
      tf.io.gfile.rmtree(aside)
      self._forget_oldest()
      self._write_state()
    except (tf.errors.OpError, OSError) as error:
      raise errors.OutputError(f"The checkpoint of step {step} cannot be written to {self.directory} (--model_dir): {_first_line(error)}") from error
    return path

  def _forget_oldest(self):
    for step in self.steps()[: -self._keep or None] if self._keep else []:
      remove(self.path(step))

  def _write_state(self):
    names = [os.path.basename(self.path(step)) for step in self.steps()]
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    path = os.path.join(self.directory, "checkpoint")
    with tf.io.gfile.GFile(path + ".writing", "w") as file:
      file.write("\n".join(lines) + "\n")
    tf.io.gfile.rename(path + ".writing", path, overwrite=True)


def remove(path):
  """Removes a checkpoint, its index first, so that what is left of it if this is cut short is no checkpoint."""
  for name in [path + ".index", *tf.io.gfile.glob(path + ".data-*")]:
    tf.io.gfile.remove(name)


def resolve(path):
  """The path of a checkpoint from that or from a directory, whose newest is meant.

  Raises:
    CheckpointNotFoundError: there is none.
  """
  if tf.io.gfile.exists(path + ".index"):
    return path
  newest = CheckpointDirectory(path).latest() if tf.io.gfile.isdir(path) else None
  if newest is None:
    raise errors.CheckpointNotFoundError(f"There is no checkpoint at {path}: expected a path such as {os.path.join(path, PREFIX)}-1000, or a folder.")
  return newest


def read_step(path):
  """The global step in a checkpoint, or 0 where it has none."""
  return int(read(path, ["global_step"])["global_step"]) if "global_step" in shapes(path) else 0


def shapes(path):
  """dict of name → (shape, dtype) of what is in a checkpoint; CheckpointError if it cannot be read."""
  try:
    reader = tf.train.load_checkpoint(path)
    dtypes = reader.get_variable_to_dtype_map()
    return {name: (tuple(shape), dtypes[name]) for name, shape in reader.get_variable_to_shape_map().items()}
  except (tf.errors.OpError, ValueError, RuntimeError) as error:
    raise errors.CheckpointError(f"The checkpoint {path} cannot be read: {_first_line(error)}") from error


def read(path, names):
  """dict of name → value (numpy array); CheckpointError if one is not there or the file is damaged."""
  found = shapes(path)
  missing = [name for name in names if name not in found]
  if missing:
    raise errors.CheckpointError(f"The checkpoint {path} has no {', '.join(missing[:10])}.")
  try:
    tensors = tf.raw_ops.RestoreV2(
        prefix=path, tensor_names=list(names), shape_and_slices=[""] * len(names), dtypes=[found[name][1] for name in names])
  except tf.errors.OpError as error:
    raise errors.CheckpointError(f"The checkpoint {path} cannot be read: {_first_line(error)}") from error
  return {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}


def restore(path, variables):
  """Gives each variable its value in a checkpoint, all of them or none.

  Args:
    path: the checkpoint.
    variables: dict of name → tf.Variable.

  Returns:
    A RestoreReport.

  Raises:
    CheckpointError: a variable is missing in it or has another shape there, or it is damaged. No variable was changed.
  """
  found = shapes(path)
  missing = [name for name in variables if name not in found]
  differing = [name for name in variables if name in found and tuple(variables[name].shape) != found[name][0]]
  if missing or differing:
    lines = [f"  {name}: not in the checkpoint; {tuple(variables[name].shape)} in the model" for name in missing]
    lines += [f"  {name}: {found[name][0]} in the checkpoint; {tuple(variables[name].shape)} in the model" for name in differing]
    raise errors.CheckpointError(
        f"The checkpoint {path} does not fit the model: {len(missing)} of its {len(variables)} variables are missing, {len(differing)} have another "
        f"shape.\n" + "\n".join(lines[:20]) + ("\n  ..." if len(lines) > 20 else "") +
        "\nWas the model changed since? A new --model_dir starts anew.")
  values = read(path, list(variables))
  for name, variable in variables.items():
    variable.assign(np.asarray(values[name]))
  report = RestoreReport(path, list(variables), sorted(set(found) - set(variables)))
  logging.info("%s", report)
  return report


def _first_line(error):
  message = getattr(error, "message", None) or str(error)
  return message.splitlines()[0]
