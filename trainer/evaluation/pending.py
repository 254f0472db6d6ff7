"""Evaluations that are due and not done yet, so that a process that comes after a killed one knows.

Example:
    pending.note("out/digits/model.ckpt-100", "test")    # before the checkpoint is written
    ...                                                           # evaluates, records, exports
    pending.settle("out/digits/model.ckpt-100", "test")
    pending.read("out/digits")                           # [] now; [(100, "test")] before

Layout: beside a checkpoint,

    model.ckpt-100.owed-<name>    owes the evaluation of this name, whose characters other than
                                  letters, digits and "_.-~" are written as in URLs; nothing after
                                  the "-" stands for the evaluation without a name

What counts is that the file is there. So it is never there in half, and two evaluations do not
change one file. `retention` keeps a checkpoint that owes an evaluation.
"""

import contextlib
import os
import re
import urllib.parse
from collections.abc import Iterable

import tensorflow as tf

from trainer import errors
from trainer.checkpoints import directory as directory_lib
from trainer.checkpoints import file_names, retention
from trainer.io import storage

_NOTE = re.compile(rf"{re.escape(file_names.PREFIX)}-(\d+){re.escape(retention.OWED)}(.*)")


def note(path: str, evaluation: str) -> None:
  """Writes down that a checkpoint owes an evaluation.

  Args:
    path: the checkpoint's, which may not be there yet.
    evaluation: its name, or "".

  Raises:
    OutputError: it cannot be written.
  """
  try:
    storage.write(_file(path, evaluation), f"{os.getpid()}\n")
  except (tf.errors.OpError, OSError) as error:
    raise errors.OutputError(
      f"{_file(path, evaluation)} (in --model_dir) cannot be written: {error}"
    ) from error


def settle(path: str, evaluation: str) -> None:
  """Removes a note, if it is there."""
  with contextlib.suppress(tf.errors.NotFoundError):
    storage.remove(_file(path, evaluation))


def read(directory: str, possible: Iterable[tuple[int, str]] = ()) -> list[tuple[int, str]]:
  """Returns what is owed in a model_dir, also where the checkpoint is not there.

  Args:
    directory: the model_dir.
    possible: (step, name) of notes that are looked for where the model_dir is a URL, whose listing
      may be behind.

  Returns:
    (step, name of the evaluation) of each, by step.
  """
  try:
    files = storage.listdir(directory)
  except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
    return []
  matches = filter(None, map(_NOTE.fullmatch, files))
  found = {(int(match[1]), urllib.parse.unquote(match[2])) for match in matches}
  if storage.is_remote(directory):
    checkpoints = directory_lib.CheckpointDirectory(directory)
    found = {
      (step, name)
      for step, name in found | set(possible)
      if storage.exists(_file(checkpoints.path(step), name))
    }
  return sorted(found)


def _file(path, evaluation):
  return f"{path}{retention.OWED}{urllib.parse.quote(evaluation, safe='')}"
