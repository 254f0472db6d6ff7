"""Holds checkpoints, so that a running training does not remove them; reads others without.

    value = leases.read(checkpoints.latest_valid, lambda path: reader.read(path, ["w"])["w"])

    with leases.hold("out/digits/model.ckpt-100"):       # for readers that read it again later
      ...

A training that keeps few checkpoints may remove the chosen one before the read. Then `read`
chooses another.

Layout: beside a checkpoint,

    model.ckpt-100.lease-<number>-<writer>    a process holds it, see `files.writer`

Retention keeps the checkpoint until the reader removes the file, until the reader's process has
ended, or until the file is LEASE_SECONDS older than the newest checkpoint. The storage gives both
times: differing clocks of machines do not matter.
"""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import file_names, reader
from trainer.io import files, storage

_S = TypeVar("_S")
_T = TypeVar("_T")

# A lease that does not change for so long is void: its process died on another machine. A process
# that reads for longer renews its leases, see `renew`.
LEASE_SECONDS = 600.0

LEASE = ".lease-"

# The most choices of a reader. A training that saves at each step needs this many.
_TRIES = 100

_numbers = itertools.count()

# The leases of this process: file → time of its write, by time.monotonic.
_open: dict[str, float] = {}


@contextlib.contextmanager
def hold(path: str) -> Iterator[None]:
  """Holds a checkpoint while the context is open.

  There is nothing to hold for a file that no training removes, such as a SavedModel. In a folder
  without write access, nothing holds the checkpoint.

  Args:
    path: the checkpoint, or another source of values.
  """
  if not file_names.is_of_training(path):
    yield
    return
  file = f"{path}{LEASE}{next(_numbers)}-{files.writer()}"
  _write(file)
  try:
    yield
  finally:
    _open.pop(file, None)
    # A lease that stays is void soon.
    with contextlib.suppress(tf.errors.OpError, errors.StorageError):
      storage.remove(file)


def _write(file):
  try:
    storage.write(file, files.writer())
    _open[file] = time.monotonic()
  except (tf.errors.OpError, errors.StorageError) as error:
    if not files.is_forbidden(error):
      logging.warning(
        "Cannot write %s (%s): a running training may remove the checkpoint before the reader "
        "finishes.",
        file,
        files.reason(error),
      )


def renew(clock: Callable[[], float] = time.monotonic) -> None:
  """Renews the leases of this process in time. Call it now and then during a long read.

  Args:
    clock: returns the time in seconds, as time.monotonic does.
  """
  for file, written in list(_open.items()):
    if clock() - written >= LEASE_SECONDS / 4:
      _write(file)


def read(choose: Callable[[], _S], load: Callable[[_S], _T]) -> _T:
  """Chooses a checkpoint and reads it; if a training removes it meanwhile, chooses another one.

  Args:
    choose: returns the checkpoint, another source, or None.
    load: function of the result of `choose`. It reads before it changes anything.

  Raises:
    CheckpointNotFoundError: there is none, or each vanished before the read.
  """
  return until_served(lambda: load(choose()))


def until_served(attempt: Callable[[], _T]) -> _T:
  """Calls a function that chooses and reads a checkpoint; calls it again after a GoneError."""
  gone: reader.GoneError | None = None
  for _ in range(_TRIES):
    try:
      return attempt()
    except reader.GoneError as error:
      gone = error
  raise errors.CheckpointNotFoundError(
    f"{gone} The same happened to {_TRIES - 1} checkpoints before it: let the training there keep "
    "more checkpoints (RunConfig.keep_checkpoint_max), or save less often."
  ) from gone


def expire(directory: str, names: Iterable[str], newest: float) -> set[str]:
  """Removes void leases; returns the names of the checkpoints that others hold.

  Args:
    directory: the model_dir.
    names: of its files.
    newest: the time of the newest checkpoint's write, in seconds, by the storage.
  """
  found = set()
  for name in names:
    checkpoint, separator, _ = name.partition(LEASE)
    if not separator or not file_names.is_of_training(checkpoint):
      continue
    file = os.path.join(directory, name)
    try:
      if files.is_dead(name) or newest - storage.stat(file).mtime_nsec / 1e9 >= LEASE_SECONDS:
        storage.remove(file)
      else:
        found.add(checkpoint)
    except (tf.errors.OpError, errors.StorageError):
      continue  # Its process has just removed it, or only that process may.
  return found
