"""Writes files that appear complete or not at all.

Paths may be local or on any file system that tf.io.gfile supports.

Example:
    with files.write_atomically("out/digits/evaluations.json") as file:
      file.write(text)
"""

import contextlib
import errno
import fnmatch
import os
import re
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.cli import processes
from trainer.io import local_files, storage

# Part of the name of an incomplete file, before the name of its writer.
WRITING = ".writing-"

# The system's errors for a file without write access: of this user, or of all on a read-only disk.
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


# TensorFlow takes these in a path for a pattern.
_OF_PATTERNS = frozenset("*?[]\\")


@contextlib.contextmanager
def write_atomically(path: str, mode: str = "w") -> Iterator[Any]:
  """Yields a temporary file; it replaces `path` if the block raises nothing.

  On a disk the temporary file is `<path>.writing-<host>-<process>-<thread>`, so that two writers
  never share one. The writer that finishes last wins. `remove_litter` removes the temporary files
  of killed processes.

  For a URL it is a local file, and `storage.copy` writes it to its place: an object store shows
  an object when it has all of it.

  Args:
    path: the file to write or replace.
    mode: "w" or "wb".

  Raises:
    OSError: it cannot write the file.
    tf.errors.OpError: it cannot write the file.
    StorageError: the storage of a URL failed for too long.
  """
  if storage.is_remote(path):
    with tempfile.NamedTemporaryFile(mode, encoding=None if "b" in mode else "utf-8") as file:
      yield file
      file.flush()
      storage.copy(file.name, path, overwrite=True)
  else:
    with local_files.write_atomically(path, mode, f"{path}{WRITING}{writer()}") as file:
      yield file


def write(path: str, content: str | bytes, flag: str = "--model_dir") -> None:
  """Writes a file completely or not at all.

  Args:
    path: the file.
    content: the complete content.
    flag: the flag that names the file or its folder, for the message.

  Raises:
    OutputError: it cannot write the file.
  """
  try:
    with write_atomically(path, "w" if isinstance(content, str) else "wb") as file:
      file.write(content)
  except (OSError, tf.errors.OpError) as error:
    raise errors.OutputError(f"Cannot write {path} ({flag}): {reason(error)}.") from error


def is_forbidden(error: BaseException | None) -> bool:
  """Whether an error forbids writing a file, as on a read-only disk."""
  if isinstance(error, tf.errors.PermissionDeniedError):
    return True
  return isinstance(error, OSError) and error.errno in _FORBIDDEN


def reason(error: Exception) -> str:
  """Returns the cause of a failed read or write, without the path: "Disk quota exceeded"."""
  if isinstance(error, OSError):
    return error.strerror or str(error)
  first, *_ = (getattr(error, "message", None) or str(error)).splitlines() or [""]
  return re.sub(r" \[Op:\w+\]$", "", first).rpartition("; ")[2]


def matching(folder: str, pattern: str, names: Iterable[str] | None = None) -> list[str]:
  """Returns the sorted paths in a folder that match a pattern.

  Unlike tf.io.gfile.glob, it takes the folder's name literally, even with a star or brackets.

  Args:
    folder: may be missing.
    pattern: for the names, with * and ?.
    names: the folder's names, if the caller has just listed them.
  """
  try:
    if names is None:
      names = [name.rstrip("/") for name in storage.listdir(folder or ".")]
  except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
    return []
  return [os.path.join(folder, name) for name in sorted(fnmatch.filter(names, pattern))]


def next_number(taken: Iterable[int], clock: Callable[[], float] = time.time) -> int:
  """Returns a number for a new file: the time, or one more than the largest existing number.

  Numbers therefore follow the order of writing, even if somebody sets the clock back.

  Args:
    taken: the numbers of the existing files.
    clock: returns the time in seconds since the epoch.
  """
  return max([int(clock()), *(number + 1 for number in taken)])


def own_path(folder: str, pattern: str, clock: Callable[[], float] = time.time) -> str:
  """Returns the path of a new file for this process; its name sorts after earlier names.

  Args:
    folder: the folder of such files of all processes.
    pattern: for their names, such as metrics-*.jsonl; <number>-<id> replaces the *.
    clock: returns the time in seconds since the epoch.
  """
  before, after = map(re.escape, pattern.split("*"))
  form = re.compile(rf"{before}(\d+)-\w+{after}")
  matches = (form.fullmatch(os.path.basename(path)) for path in matching(folder, pattern))
  number = next_number((int(match[1]) for match in matches if match), clock)
  return os.path.join(folder, pattern.replace("*", f"{number}-{uuid.uuid4().hex[:8]}"))


@contextlib.contextmanager
def plain_path(path: str) -> Iterator[str]:
  """Yields a path to the same file that TensorFlow does not take for a pattern.

  TensorFlow looks for checkpoints by a pattern before it restores them, so that it finds none in a
  folder a[b]. There the path leads through a link to the folder, while the context is open.
  """
  if storage.is_remote(path) or not _OF_PATTERNS.intersection(path):
    yield path
    return
  folder, name = os.path.split(os.path.abspath(path))
  with tempfile.TemporaryDirectory() as temporary:
    link = os.path.join(temporary, "link")
    os.symlink(folder, link)
    yield os.path.join(link, name)


def shown(path: str) -> str:
  """Returns a path as a person would write it: below the working directory, without that."""
  below = os.path.relpath(path) if "://" not in path else path
  return path if below.startswith(os.pardir) else below


def writer() -> str:
  """Returns this machine, process and thread, for the names of incomplete files."""
  return f"{socket.gethostname()}-{os.getpid()}-{threading.get_native_id()}"


def is_dead(name: str) -> bool:
  """Whether a name ends in a `writer` of this machine, and its process has ended."""
  found = re.search(rf"(?:^|\d-|-){re.escape(socket.gethostname())}-(\d+)-\d+$", name)
  return found is not None and processes.start_time(int(found[1])) is None


def remove_litter(folder: str) -> None:
  """Removes the incomplete files of killed processes of this machine from a folder.

  Their names contain `.writing-` and a `writer`. Incomplete files of other machines stay: their
  processes may be alive.
  """
  for path in matching(folder, f"*{WRITING}*"):
    if not is_dead(path):
      continue
    try:
      (storage.rmtree if storage.isdir(path) else storage.remove)(path)
    except tf.errors.NotFoundError:
      continue  # Another process was faster.
    except tf.errors.OpError as error:
      logging.warning("Cannot remove %s, left by a killed process: %s", path, reason(error))
