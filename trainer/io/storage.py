"""Files on any file system of tf.io.gfile, with retries for temporary failures.

    for name in storage.listdir("gs://bucket/run"):
      text = storage.read(f"gs://bucket/run/{name}")
    storage.retry("read the checkpoint", path, lambda: tf.raw_ops.RestoreV2(...))

All of Octet reads and writes through this module, except files that must be local. Each function
has the name of its tf.io.gfile counterpart. For a URL it differs:

- It retries an operation after a temporary failure, see `Retries`. If an operation succeeded and
  its answer was lost, the repetition does not fail.
- `isdir` raises the errors that tf.io.gfile.isdir takes for "no".

On local file systems there are no retries: their errors do not pass.
"""

import contextlib
import dataclasses
import itertools
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import tensorflow as tf
from absl import logging

from trainer import errors

_T = TypeVar("_T")

# The errors of gs:// for an overloaded or unreachable server. TensorFlow's own file system for
# gs:// retries the first three, and raises ABORTED when it gives up; other file systems raise
# INTERNAL for the same.
TRANSIENT = (
  tf.errors.UnavailableError,
  tf.errors.DeadlineExceededError,
  tf.errors.UnknownError,
  tf.errors.AbortedError,
  tf.errors.InternalError,
)

_PORTION_BYTES = 2**24  # Of a file to read.


@dataclasses.dataclass(frozen=True)
class Retries:
  """Number and time of the retries of an operation: truncated exponential backoff.

  The pauses follow Google's advice for Cloud Storage, and TensorFlow's for gs://: they begin at 1 s
  and double up to 32 s, each with a random part that spreads many workers
  (https://cloud.google.com/storage/docs/retry-strategy, and RetryConfig in TensorFlow's
  retrying_utils.h). The total time is the default of Google's client libraries for Python.

  Attributes:
    first_seconds: the first pause.
    longest_seconds: the longest pause.
    total_seconds: after this time no further try begins.
    sleep: sleeps for a number of seconds.
    clock: returns the time in seconds.
  """

  first_seconds: float = 1.0
  longest_seconds: float = 32.0
  total_seconds: float = 120.0
  sleep: Callable[[float], None] = time.sleep
  clock: Callable[[], float] = time.monotonic

  def pause(self, attempt: int) -> float:
    """Returns the seconds to wait after a try; the first try has the number 1."""
    whole = min(self.first_seconds * 2 ** (attempt - 1), self.longest_seconds)
    return whole * random.uniform(0.5, 1.0)


RETRIES = Retries()


class DeniedError(errors.OctetError, tf.errors.PermissionDeniedError):
  """This account may not do an operation on the storage of a URL."""

  def __init__(self, message: str) -> None:
    tf.errors.PermissionDeniedError.__init__(self, None, None, message)


def is_remote(path: Any) -> bool:
  """Whether a path is a URL, such as gs://bucket/run."""
  return "://" in os.fspath(path)


def retry(
  what: str,
  path: str,
  function: Callable[[], _T],
  *,
  passes: Callable[[Exception], bool] | None = None,
) -> _T:
  """Calls a function that reads or writes files, with retries for a URL; returns its result.

  Args:
    what: the function's purpose, for messages: "read", "write the checkpoint".
    path: the file or the folder.
    function: repeatable, even after a try that did a part of its work.
    passes: whether a further error may pass.

  Raises:
    StorageError: it failed until the time was over.
    DeniedError: this account lacks the permission.
  """
  if not is_remote(path):
    return function()
  start, attempt = RETRIES.clock(), 0
  while True:
    attempt += 1
    try:
      return function()
    except tf.errors.PermissionDeniedError as error:
      raise DeniedError(
        f"Cannot {what} {path}: this account may not ({errors.first_line(error)}). Give it the "
        "right, or another path, such as --model_dir."
      ) from error
    except Exception as error:
      if not isinstance(error, TRANSIENT) and not (passes is not None and passes(error)):
        raise
      waited, pause = RETRIES.clock() - start, RETRIES.pause(attempt)
      reason = f"{type(error).__name__}: {errors.first_line(error)}"
      if waited + pause > RETRIES.total_seconds:
        raise errors.StorageError(
          f"Cannot {what} {path}: it failed {attempt} time{'s' * (attempt > 1)} in {waited:.0f} s, "
          f"in the end with {reason}. Run the same command when "
          "the storage answers; a training resumes from its newest checkpoint."
        ) from error
      log = logging.warning if attempt == 1 else logging.info
      log("Cannot %s %s now, and tries again in %.1f s: %s", what, path, pause, reason)
      RETRIES.sleep(pause)


def _change(what, path, function, is_done):
  """Retries a change that fails on repetition, unless `is_done` shows its success."""
  tries = itertools.count()

  def attempt():
    is_first = next(tries) == 0
    try:
      function()
    except (tf.errors.NotFoundError, tf.errors.AlreadyExistsError):
      if is_first or not is_done():
        raise

  retry(what, path, attempt)


def check_answers(path: str, name: str) -> None:
  """Checks, before a run begins, that it can list a folder, or that the folder does not exist yet.

  Later operations retry temporary failures.

  Args:
    path: the folder.
    name: the flag or argument, for the message.

  Raises:
    SettingError: the file system is unknown or unreachable, or this account may not list the
      folder.
  """
  try:
    if is_remote(path):
      tf.io.gfile.stat(path)
    else:
      os.listdir(path)
  except (FileNotFoundError, NotADirectoryError, tf.errors.NotFoundError, *TRANSIENT):
    return
  except (OSError, tf.errors.OpError) as error:
    if isinstance(error, tf.errors.PermissionDeniedError) and is_remote(path):
      return  # Some accounts may write below a folder without access to the folder itself.
    reason = getattr(error, "strerror", None) or errors.first_line(error)
    raise errors.SettingError(f"Cannot read {name}={path}: {reason}.") from None


def exists(path: str) -> bool:
  """Whether there is a file or a folder."""
  return retry("look for", path, lambda: tf.io.gfile.exists(path))


def isdir(path: str) -> bool:
  """Whether there is a folder."""
  if not is_remote(path):
    return tf.io.gfile.isdir(path)
  try:
    return stat(path).is_directory
  except tf.errors.NotFoundError:
    return False


def stat(path: str) -> Any:
  """Returns length, mtime_nsec and is_directory of a file or a folder."""
  return retry("look at", path, lambda: tf.io.gfile.stat(path))


def listdir(path: str) -> list[str]:
  """Lists the names in a folder; names of folders may end in "/".

  Raises:
    NotFoundError: the folder is missing. An object store may list nothing instead.
  """

  # tf.io.gfile.listdir also says that there is no folder when it cannot look whether there is one.
  def may_pass(error):
    return isinstance(error, tf.errors.NotFoundError) and isdir(path)

  return retry("list", path, lambda: tf.io.gfile.listdir(path), passes=may_pass)


def glob(pattern: str) -> list[str]:
  """Lists the paths that match a pattern, see tf.io.gfile.glob."""
  return retry("list", pattern, lambda: tf.io.gfile.glob(pattern))


def walk(top: str) -> Iterator[tuple[str, list[str], list[str]]]:
  """Yields (folder, names of its folders, names of its files) for a folder and all below it."""
  try:
    names = [name.rstrip("/") for name in listdir(top)]
  except tf.errors.NotFoundError:
    return
  folders = [name for name in names if isdir(os.path.join(top, name))]
  yield top, folders, [name for name in names if name not in folders]
  for name in folders:
    yield from walk(os.path.join(top, name))


def makedirs(path: str) -> None:
  """Makes a folder and its missing parents."""
  retry("make the folder", path, lambda: tf.io.gfile.makedirs(path))


def read(path: str, mode: str = "r") -> Any:
  """Returns the content of a file: str, or bytes with mode "rb"."""

  def once():
    content = b""
    with tf.io.gfile.GFile(path, "rb") as file:
      # In portions: for a complete read, TensorFlow asks for the length of the file with this name.
      # By then that may be another file, and TensorFlow would cut the text of the opened file.
      while portion := file.read(_PORTION_BYTES):
        content += portion
        if len(portion) < _PORTION_BYTES:
          break
    return content

  content = retry("read", path, once)
  return content if "b" in mode else content.decode()


@contextlib.contextmanager
def opened(path: str) -> Iterator[Iterable[str]]:
  """Yields a text file for reading line by line; copies the file of a URL first."""
  if not is_remote(path):
    with tf.io.gfile.GFile(path) as file:
      yield file
    return
  with tempfile.NamedTemporaryFile() as here:
    copy(path, here.name, overwrite=True)
    with open(here.name, encoding="utf-8", newline="\n") as text:
      yield text


def write(path: str, content: str | bytes) -> None:
  """Writes a file, or replaces it. `files.write_atomically` writes whole ones on a disk too."""

  def once():
    _clear(path)
    with tf.io.gfile.GFile(path, "w" if isinstance(content, str) else "wb") as file:
      file.write(content)

  retry("write", path, once)


def _clear(path):
  """Removes a file of ram://, where TensorFlow appends to an existing file."""
  if path.startswith("ram://"):
    with contextlib.suppress(tf.errors.NotFoundError):
      tf.io.gfile.remove(path)


def copy(source: str, target: str, overwrite: bool = False) -> None:
  """Copies a file."""
  both = target if is_remote(target) else source
  if is_remote(both) and not overwrite and exists(target):
    raise tf.errors.AlreadyExistsError(None, None, f"{target} is there already")

  def once():
    _clear(target)
    tf.io.gfile.copy(source, target, overwrite=overwrite or is_remote(both))

  retry(f"copy {source} to" if both == target else f"copy to {target} from", both, once)


def rename(source: str, target: str, overwrite: bool = False) -> None:
  """Renames a file. On a disk, also a folder."""
  _change(
    f"rename {source} to",
    target,
    lambda: tf.io.gfile.rename(source, target, overwrite=overwrite),
    lambda: exists(target) and not exists(source),
  )


def remove(path: str) -> None:
  """Removes a file.

  Raises:
    NotFoundError: there was none.
  """
  _change("remove", path, lambda: tf.io.gfile.remove(path), lambda: True)


def rmtree(path: str) -> None:
  """Removes a folder and everything in it.

  Raises:
    NotFoundError: the folder is missing.
  """
  _change("remove", path, lambda: tf.io.gfile.rmtree(path), lambda: True)
