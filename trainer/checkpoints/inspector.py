"""Tells valid checkpoints from damaged ones."""

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import file_names, reader
from trainer.io import storage


class Inspector:
  """Reads each checkpoint once, and again if its files have changed; logs each problem once."""

  def __init__(self) -> None:
    # path → (stamps of its files, its problem or None).
    self._known: dict[str, tuple] = {}
    self._logged: set[str] = set()

  def problem(self, path: str, looks_again: bool = True) -> str | None:
    """Returns the problem of a checkpoint, or None.

    Args:
      path: of the checkpoint.
      looks_again: whether the files of an already verified checkpoint may have changed.

    Raises:
      CheckpointError: the checkpoint is out of reach now.
      GoneError: the checkpoint has vanished, or another process replaced it during the read.
    """
    known, problem = self._known.get(path, (None, None))
    stamps = _stamps(path) if looks_again or known is None else known
    if known != stamps:
      try:
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
    """Returns the known problem of a checkpoint, if this process has read it; reads nothing."""
    return self._known[path][1] if path in self._known else None

  def mark_valid(self, path: str) -> None:
    """Notes that a checkpoint is complete: this process, or the chief, has just written it."""
    self._known[path] = _stamps(path), None

  def mark_removed(self, path: str) -> None:
    """Notes that a checkpoint has vanished."""
    self._known.pop(path, None)

  def written_at(self, path: str) -> float:
    """Returns the time of a checkpoint's write, in seconds since the epoch; 0.0 if it is gone."""
    index, _ = self._known[path][0] if path in self._known else _stamps(path)
    return index[0] / 1e9 if index else 0.0

  def warn(self, problem: str, consequence: str) -> None:
    """Logs a problem and its consequence, once for each problem."""
    if problem not in self._logged:
      self._logged.add(problem)
      logging.warning("%s %s", problem, consequence)


def _stamps(path):
  """Returns (time of writing in ns since the epoch, length) of a checkpoint's index and data.

  These stamps distinguish a file from an earlier file at its path. A missing file has None.
  """
  found = []
  for ending in (".index", file_names.DATA):
    try:
      stat = storage.stat(path + ending)
      found.append((stat.mtime_nsec, stat.length))
    except tf.errors.NotFoundError:
      found.append(None)
  return tuple(found)
