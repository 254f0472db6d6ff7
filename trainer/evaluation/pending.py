"""Files that mark scheduled, unfinished evaluations for the process after a killed one.

Example:
    pending = PendingEvaluations("out/digits")
    pending.add(100, "test")       # before the checkpoint is written
    ...                            # evaluates, records, exports
    pending.remove(100, "test")
    pending.read()                 # [] now; [(100, "test")] before

Layout: beside a checkpoint,

    model.ckpt-100.owed-<name>    the evaluation of this name is pending; characters other than
                                  letters, digits and "_.-~" are written as in URLs; nothing follows
                                  the "-" for the evaluation without a name

The existence of the file is the mark. A mark is therefore never incomplete, and two evaluations
never change one file. `retention` keeps a checkpoint with a pending evaluation.
"""

import contextlib
import dataclasses
import os
import re
import urllib.parse

import tensorflow as tf

from trainer import errors
from trainer.checkpoints import file_names, retention
from trainer.io import storage

_FILE = re.compile(rf"{re.escape(file_names.PREFIX)}-(\d+){re.escape(retention.PENDING)}(.*)")


@dataclasses.dataclass(frozen=True)
class PendingEvaluations:
  """The pending evaluations of a run.

  Attributes:
    model_dir: the folder.
    writes: whether this process adds and removes them: one of several workers does.
  """

  model_dir: str
  writes: bool = True

  def add(self, step: int, evaluation: str) -> None:
    """Marks an evaluation of an existing or future checkpoint as pending.

    Args:
      step: the checkpoint's step.
      evaluation: the evaluation's name, or "".

    Raises:
      OutputError: it cannot write the mark.
    """
    if not self.writes:
      return
    path = self._path(step, evaluation)
    try:
      storage.write(path, f"{os.getpid()}\n")
    except (tf.errors.OpError, OSError) as error:
      raise errors.OutputError(f"Cannot write {path} (in --model_dir): {error}") from error

  def remove(self, step: int, evaluation: str) -> None:
    """Removes an evaluation, if it is there."""
    if self.writes:
      with contextlib.suppress(tf.errors.NotFoundError):
        storage.remove(self._path(step, evaluation))

  def read(self) -> list[tuple[int, str]]:
    """Returns the pending evaluations, even those of missing checkpoints.

    Returns:
      (step, name of the evaluation) of each, by step.
    """
    try:
      names = storage.listdir(self.model_dir)
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
      return []
    matches = filter(None, map(_FILE.fullmatch, names))
    return sorted((int(match[1]), urllib.parse.unquote(match[2])) for match in matches)

  def _path(self, step, evaluation):
    ending = retention.PENDING + urllib.parse.quote(evaluation, safe="")
    return os.path.join(self.model_dir, f"{file_names.PREFIX}-{step}{ending}")
