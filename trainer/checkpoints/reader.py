"""Reads and verifies checkpoints, and restores variables from them."""

import dataclasses
import functools
import glob
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import file_names, former_names, own_names
from trainer.io import files, storage

# A checkpoint's content beside variables: the place in the training data, and that the data ended
# there. See `data_position`.
EXAMPLES_SEEN = "examples_seen"
INPUT_ENDED = "input_ended"
POSITION = frozenset({EXAMPLES_SEEN, INPUT_ENDED})

# The most bytes of a checkpoint in memory at a time during its verification.
_PORTION_BYTES = 2**26

_LOOKS = 3  # See `_may_pass`.

# Errors that say nothing about the files: another try may succeed.
_OUT_OF_REACH = (
  tf.errors.AbortedError,
  tf.errors.CancelledError,
  tf.errors.DeadlineExceededError,
  tf.errors.PermissionDeniedError,
  tf.errors.ResourceExhaustedError,
  tf.errors.UnauthenticatedError,
  tf.errors.UnavailableError,
)


class GoneError(errors.CheckpointNotFoundError):
  """A checkpoint has vanished: a training has removed it after the choice."""


@dataclasses.dataclass(frozen=True)
class RestoreReport:
  """What a restore matched.

  Attributes:
    path: the checkpoint.
    matched: names of the restored variables.
    unexpected: names in the checkpoint that the model does not have. In an evaluation these are the
      optimizer's.
  """

  path: str
  matched: list[str]
  unexpected: list[str]

  def __str__(self) -> str:
    stored = {*self.matched, *self.unexpected}
    own = own_names.own_names(stored, stored)
    others = [name for name in self.unexpected if name in own]
    of_training = len(self.unexpected) - len(others)
    text = f"Restored {self.path}: all {len(self.matched)} variables"
    if of_training:
      text += f"; {of_training} values of the optimizer and the like have no use here"
    if others:
      names = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
      text += f"; {len(others)} in it are not in the model ({names})"
    return text


def latest_named(folder: str) -> str | None:
  """Returns the newest checkpoint by the file `checkpoint` of a folder, of whatever program.

  TensorFlow also says that there is none if it cannot read that file. So the function reads the
  file itself, waits for a failing storage, and then asks TensorFlow again.

  Raises:
    StorageError: the storage failed for too long.
  """
  found = tf.train.latest_checkpoint(folder)
  state = os.path.join(folder, file_names.STATE)
  if found is None and storage.is_remote(folder) and storage.exists(state):
    storage.read(state)
    found = tf.train.latest_checkpoint(folder)
  return found


def read_step(path: str) -> int:
  """Reads the global step in a checkpoint; 0 if there is none."""
  return int(read(path, ["global_step"])["global_step"]) if "global_step" in shapes(path) else 0


def shapes(path: str) -> dict[str, tuple[tuple[int, ...], tf.DType]]:
  """Lists the contents of a checkpoint: name → (shape, dtype).

  Raises:
    CheckpointDamagedError: a file is damaged or missing.
    CheckpointError: the checkpoint is out of reach.
    GoneError: the checkpoint is not there.
  """
  try:
    with files.plain_path(path) as plain:
      reader = storage.retry(
        "read the checkpoint",
        path,
        lambda: tf.compat.v1.train.NewCheckpointReader(plain),
        passes=_may_pass(path),
      )
    dtypes = reader.get_variable_to_dtype_map()
    return {
      name: (tuple(shape), dtypes[name])
      for name, shape in reader.get_variable_to_shape_map().items()
    }
  except errors.StorageError:
    raise
  except (tf.errors.OpError, ValueError, RuntimeError) as error:
    raise _unreadable(path, error) from error


def verify(path: str) -> None:
  """Reads a whole checkpoint, so that TensorFlow compares it with its checksums.

  Raises:
    CheckpointDamagedError: a file is damaged or missing; the message names it.
    CheckpointError: the checkpoint is out of reach.
    GoneError: the checkpoint is not there.
  """
  found = shapes(path)
  portion, size = [], 0
  for name, (shape, dtype) in found.items():
    portion.append(name)
    size += math.prod(shape) * dtype.size
    if size >= _PORTION_BYTES:
      _tensors(path, portion, found)
      portion, size = [], 0
  _tensors(path, portion, found)


def read(path: str, names: Sequence[str]) -> dict[str, Any]:
  """Reads values from a checkpoint.

  Args:
    path: the checkpoint.
    names: the names of the values.

  Returns:
    Name → value, as tensor.numpy() returns it.

  Raises:
    CheckpointDamagedError: a file is damaged or missing.
    CheckpointError: the checkpoint lacks a name or is out of reach.
    GoneError: the checkpoint is not there.
  """
  found = shapes(path)
  missing = [name for name in names if name not in found]
  if missing:
    raise errors.CheckpointError(f"The checkpoint {path} has no {', '.join(missing[:10])}.")
  return {
    name: tensor.numpy() for name, tensor in zip(names, _tensors(path, names, found), strict=True)
  }


def _tensors(path, names, found):
  """Reads tensors by name. `found` is the result of `shapes`."""
  if not names:
    return []
  try:
    with files.plain_path(path) as plain, tf.device("/cpu:0"):
      restore = functools.partial(
        tf.raw_ops.RestoreV2,
        prefix=plain,
        tensor_names=list(names),
        shape_and_slices=[""] * len(names),
        dtypes=[found[name][1] for name in names],
      )
      return storage.retry("read the checkpoint", path, restore, passes=_may_pass(path))
  except tf.errors.OpError as error:
    raise _unreadable(path, error) from error


def _may_pass(path):
  """Returns a function that says whether an error of a read from a URL may pass.

  TensorFlow says "not found" for any error of its look at the files, and a CheckpointReader reports
  errors of the storage like damage. So this function looks at the files itself: if the storage
  fails, it raises a StorageError. If the storage answers, and TensorFlow still cannot read the
  files after `_LOOKS` times, the files are damaged.
  """
  looks = itertools.count(1)

  def passes(error):
    # A CheckpointReader raises a plain OpError for each error that it has no class for.
    if not isinstance(error, tf.errors.NotFoundError) and type(error) is not tf.errors.OpError:
      return False
    if next(looks) > _LOOKS:
      return False
    if not all(storage.exists(path + ending) for ending in (".index", file_names.DATA)):
      return False
    storage.read(path + ".index", "rb")
    return True

  return passes


def _unreadable(path, error):
  """Returns the error to raise: a CheckpointDamagedError only if the files are to blame."""
  if not storage.exists(path + ".index"):
    return GoneError(
      f"The checkpoint {path} is gone: another process removed it before the reading."
    )
  if isinstance(error, _OUT_OF_REACH):
    return errors.CheckpointError(
      f"Cannot read the checkpoint {path} now: {errors.first_line(error)}."
    )
  kind = "is incomplete" if isinstance(error, tf.errors.NotFoundError) else "is damaged"
  present = map(os.path.basename, [path + ".index", *data_files(path)])
  return errors.CheckpointDamagedError(
    f"The checkpoint {path} {kind} ({', '.join(present)}): {errors.first_line(error)}."
  )


def data_files(path: str) -> list[str]:
  """Returns the files with the values of a checkpoint."""
  folder, name = os.path.split(path)
  return files.matching(folder, glob.escape(name) + ".data-*")


def fits(variable: tf.Variable, shape: Sequence[int], dtype: Any) -> bool:
  """Whether a variable can have a stored value.

  Numbers of another precision fit. Integers do not fit a variable of floats, nor the reverse.

  Args:
    variable: of the model.
    shape: of the value.
    dtype: of the value, see tf.as_dtype.
  """
  return _shape(variable) == tuple(shape) and _kind(variable.dtype) == _kind(dtype)


def _shape(variable):
  return tuple(variable.shape.as_list())


def _kind(dtype):
  dtype = tf.as_dtype(dtype)
  return dtype.is_floating, dtype.is_complex, dtype.base_dtype == tf.string


def _difference(name, variable, shape, dtype):
  """Returns a line that says how a stored value differs from a variable that it does not fit."""
  there, here = str(shape), str(_shape(variable))
  if there == here:
    there, here = f"{there} {dtype.name}", f"{here} {variable.dtype.base_dtype.name}"
  return f"  {name}: {there} in the checkpoint; {here} in the model"


def restore(
  path: str,
  variables: Mapping[str, tf.Variable],
  stored_as: Mapping[str, str] | None = None,
  former: Mapping[str, str] | None = None,
) -> RestoreReport:
  """Restores variables from a checkpoint, either all or none.

  Args:
    path: the checkpoint.
    variables: name → variable.
    stored_as: name of a variable → its name in the checkpoint, where these differ. Names from an
      earlier version of Octet or of Keras, see `former_names`, need no entry.
    former: see `former_names.stored_as`.

  Returns:
    The matches. The function logs them too.

  Raises:
    CheckpointError: the checkpoint lacks a variable or has another shape or kind of it, see `fits`,
      or the checkpoint is damaged. No variable has changed.
  """
  found = shapes(path)
  earlier = former_names.stored_as(variables, found, former)
  stored_as = {name: name for name in variables} | earlier | dict(stored_as or {})
  if earlier:
    logging.info("%s has variables under earlier names: %s", path, earlier)
  missing = [name for name in variables if stored_as[name] not in found]
  differing = [
    name
    for name in variables
    if name not in missing and not fits(variables[name], *found[stored_as[name]])
  ]
  unexpected = sorted(set(found) - set(variables) - set(stored_as.values()) - POSITION)
  if missing or differing:
    lines = [
      f"  {name}: {'not' if stored_as[name] == name else f'no {stored_as[name]}'} in the "
      f"checkpoint; {_shape(variables[name])} in the model"
      for name in missing
    ]
    lines += [_difference(name, variables[name], *found[stored_as[name]]) for name in differing]
    raise errors.CheckpointError(
      f"The checkpoint {path} does not fit the model: "
      f"{len(variables) - len(missing) - len(differing)} variables matched, {len(missing)} "
      f"missing, {len(unexpected)} unexpected, {len(differing)} of wrong shape or kind.\n"
      + "\n".join(lines[:20])
      + ("\n  ..." if len(lines) > 20 else "")
      + "\n"
      "Has the model changed since? A new --model_dir starts anew; a warm start takes the "
      "variables that fit."
    )
  # Read all values before the first variable changes: the read may find damage.
  values = read(path, list(stored_as.values()))
  for name, variable in variables.items():
    variable.assign(np.asarray(values[stored_as[name]]))
  report = RestoreReport(path, list(variables), unexpected)
  logging.info("%s", report)
  return report
