"""Holds checkpoints during a read, so that a running training does not remove them.

    value = leases.read(checkpoints.latest_valid, lambda path: reader.read(path, ["w"])["w"])

Every reader chooses and reads through `held` or `read`: a training that keeps few checkpoints may
remove the chosen one before the lease exists. Then the reader chooses another.

Layout: beside a checkpoint,

    model.ckpt-100.lease-<number>-<writer>    a process reads it, see `files.writer`

Retention keeps the checkpoint until the reader removes the file, until the reader's process has
ended, or until the file has not changed for LEASE_SECONDS. The asking process measures this time by
its own clock, from its first look at the file's present state: changed or differing clocks of
machines do not matter.
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
from trainer.checkpoints import file_names, listing, reader
from trainer.io import files, storage

_T = TypeVar("_T")

# A lease that does not change for so long is void: its process died on another machine. A process
# that reads for longer renews its leases, see `renew`.
LEASE_SECONDS = 600.0

LEASE = ".lease-"

# The most choices of a reader. A reader that can write leases needs two or three. The number is for
# folders without write access.
_TRIES = 100

_numbers = itertools.count()

# The leases of this process: file → time of its write, by time.monotonic.
_open: dict[str, float] = {}

# The leases of other processes, as `expire` saw them: file → (time of writing in ns, time of this
# process's first look at that, by its clock).
_seen: dict[str, tuple[int, float]] = {}


@contextlib.contextmanager
def lease(path: str | None) -> Iterator[bool]:
  """Holds a checkpoint while the context is open.

  There is nothing to hold for None, nor for a file that no training removes, such as a SavedModel.

  Args:
    path: the checkpoint, or another source of values.

  Yields:
    Whether the lease holds the checkpoint. In a folder without write access, the process reads
    without a lease.
  """
  if path is None or not file_names.is_of_training(path):
    yield False
    return
  file = f"{path}{LEASE}{next(_numbers)}-{files.writer()}"
  is_held = _write(file)
  try:
    yield is_held
  finally:
    _open.pop(file, None)
    # A lease that stays is void soon.
    with contextlib.suppress(tf.errors.OpError, errors.StorageError):
      storage.remove(file)


def _write(file):
  """Writes or renews a lease; returns whether it could."""
  try:
    storage.write(file, files.writer())
  except (tf.errors.OpError, errors.StorageError) as error:
    if not files.is_forbidden(error):
      logging.warning(
        "Cannot write %s (%s): a running training may remove the checkpoint before the reader "
        "finishes.",
        file,
        files.reason(error),
      )
    return False
  _open[file] = time.monotonic()
  return True


def renew(clock: Callable[[], float] = time.monotonic) -> None:
  """Renews the leases of this process in time. Call it now and then during a long read.

  Args:
    clock: returns the time in seconds, as time.monotonic does.
  """
  for file, written in list(_open.items()):
    if clock() - written >= LEASE_SECONDS / 4:
      _write(file)


@contextlib.contextmanager
def held(choose: Callable[[], str | None], load: Callable[[str], _T]) -> Iterator[_T]:
  """Chooses a checkpoint, holds it while the context is open, and loads it.

  If a training removes the checkpoint before the load, chooses another one.

  Args:
    choose: returns the checkpoint, another source, or None.
    load: function of the result of `choose`. It reads before it changes anything.

  Yields:
    The result of `load`.

  Raises:
    CheckpointNotFoundError: there is none, or each vanished before the read.
  """
  with contextlib.ExitStack() as stack:
    tried = []

    def attempt():
      with contextlib.ExitStack() as own:
        path = choose()
        is_held = own.enter_context(lease(path))
        loaded = load(path)
        # If this was the only choice, the reader takes it as long as it exists.
        is_going = path not in tried and _is_going(path) if is_held else False
        tried.append(path)
        if is_going or (is_held and not storage.exists(f"{path}.index")):
          raise reader.GoneError(
            f"The checkpoint {path} is gone: another process removed it during the reading."
          )
        stack.enter_context(own.pop_all())
        return loaded

    yield until_served(attempt)


def _is_going(path):
  """Whether a training may have looked for leases on a checkpoint before this one existed.

  A training first takes a checkpoint out of the file `checkpoint`, then looks for leases, and then
  removes it. So the training sees every lease that existed before this process read the file, if
  the file still named the checkpoint.
  """
  state = listing.read_state(os.path.dirname(path))
  named, step = state.listed_steps() if state else (), file_names.step_of(path)
  return bool(named) and step not in named and step < max(named)


def read(choose: Callable[[], str | None], load: Callable[[str], _T]) -> _T:
  """Reads a checkpoint, as `held` does; returns the result of `load`."""
  with held(choose, load) as loaded:
    return loaded


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


def expire(
  directory: str, names: Iterable[str], clock: Callable[[], float] = time.monotonic
) -> set[str]:
  """Removes void leases; returns the names of the checkpoints that others hold.

  Args:
    directory: the model_dir.
    names: of its files.
    clock: returns the time in seconds, as time.monotonic does.
  """
  found, now = set(), clock()
  names = set(names)
  for file in [file for file in _seen if os.path.dirname(file) == directory]:
    if os.path.basename(file) not in names:
      del _seen[file]
  for name in names:
    checkpoint, separator, _ = name.partition(LEASE)
    if not separator or not file_names.is_of_training(checkpoint):
      continue
    file = os.path.join(directory, name)
    try:
      written = storage.stat(file).mtime_nsec
      if _seen.get(file, (None,))[0] != written:
        _seen[file] = written, now
      if files.is_dead(name) or now - _seen[file][1] >= LEASE_SECONDS:
        storage.remove(file)
      else:
        found.add(checkpoint)
    except (tf.errors.OpError, errors.StorageError):
      continue  # Its process has just removed it, or only that process may.
  return found
