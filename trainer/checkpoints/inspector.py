"""Tells valid checkpoints from damaged ones."""

import contextlib
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import file_names, reader
from trainer.io import storage


class Inspector:
  """Reads each checkpoint once, and again if its files have changed; logs each problem once."""

  def __init__(self) -> None:
    # path → (stamps of its files, what is wrong with it or None).
    self._known: dict[str, tuple] = {}
    self._logged: set[str] = set()

  def problem(
    self,
    path: str,
    hold: Callable[[str], contextlib.AbstractContextManager] = contextlib.nullcontext,
    looks_again: bool = True,
  ) -> str | None:
    """Returns what is wrong with a checkpoint, or None.

    Args:
      path: of the checkpoint.
      hold: makes the context in which it is read, of the path.
      looks_again: whether the files of a checkpoint that was read before may have changed.

    Raises:
      CheckpointError: the checkpoint is out of reach now.
      GoneError: the checkpoint is not there any more, or was replaced while it was read.
    """
    known, problem = self._known.get(path, (None, None))
    stamps = _stamps(path) if looks_again or known is None else known
    if known != stamps:
      try:
        with hold(path):
          reader.verify(path)
        problem = None
      except errors.CheckpointDamagedError as error:
        if _stamps(path) != stamps:
          raise reader.GoneError(
            f"Another process replaced the checkpoint {path} during the reading."
          ) from error
        problem = str(error)
      self._known[path] = stamps, problem
    return problem

  def known_problem(self, path: str) -> str | None:
    """Returns what was wrong with a checkpoint when it was read, if it was; reads nothing."""
    return self._known[path][1] if path in self._known else None

  def mark_valid(self, path: str) -> None:
    """Notes that a checkpoint is complete: this process, or the chief, has just written it."""
    self._known[path] = _stamps(path), None

  def mark_removed(self, path: str) -> None:
    """Notes that a checkpoint is not there any more."""
    self._known.pop(path, None)

  def written_at(self, path: str) -> float:
    """Returns when a checkpoint was written, in seconds since the epoch; 0.0 if it is gone."""
    index, _ = self._known[path][0] if path in self._known else _stamps(path)
    return index[0] / 1e9 if index else 0.0

  def warn(self, problem: str, consequence: str) -> None:
    """Logs a problem with what follows from it, unless the problem was logged before."""
    if problem not in self._logged:
      self._logged.add(problem)
      logging.warning("%s %s", problem, consequence)


def _stamps(path):
  """Returns (time of writing in ns since the epoch, length) of a checkpoint's index and data.

  They tell a file from an earlier one at its path. A missing file has None.
  """
  found = []
  for ending in (".index", file_names.DATA):
    try:
      stat = storage.stat(path + ending)
      found.append((stat.mtime_nsec, stat.length))
    except tf.errors.NotFoundError:
      found.append(None)
  return tuple(found)
