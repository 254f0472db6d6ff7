"""Files on any file system of tf.io.gfile, with retries for temporary failures.

    for name in storage.listdir("gs://bucket/run"):
      text = storage.read(f"gs://bucket/run/{name}")
    storage.retry("read the checkpoint", path, lambda: tf.raw_ops.RestoreV2(...))

All of Octet reads and writes through this module, except files that must be local. Each function
has the name of its tf.io.gfile counterpart. For a URL it differs:

- It retries an operation after a temporary failure, see `Retries`. If an operation succeeded and
  its answer was lost, the repetition does not fail.
- A listing includes everything that this process made and nothing that it removed, even if the file
  system's own listing is behind.
- `isdir` raises the errors that tf.io.gfile.isdir takes for "no".

On local file systems there are no retries: their errors do not pass.
"""

import contextlib
import dataclasses
import os
import random
import tempfile
import threading
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

# For this long, listings also reflect the files that this process made or removed. Google Cloud
# Storage and S3 list exactly; NFS may show a listing that is 60 s old (acdirmax in nfs(5)).
_LISTINGS_BEHIND_SECONDS = 600.0


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
    total_seconds: after this time no further try begins. The time counts from the operation's first
      try, or, if no operation has succeeded since, from the process's first failed try.
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
ONCE = Retries(total_seconds=0.0)


class DeniedError(errors.OctetError, tf.errors.PermissionDeniedError):
  """This account may not do an operation on the storage of a URL."""

  def __init__(self, message: str) -> None:
    tf.errors.PermissionDeniedError.__init__(self, None, None, message)


# "gs://bucket" → the time since the last success of an operation there. After one operation has
# given up, the next one, such as the removal of a lock, does not wait as long again.
_failing_since: dict[str, float] = {}


def is_remote(path: Any) -> bool:
  """Whether a path is a URL, such as gs://bucket/run."""
  return "://" in os.fspath(path)


def retry(
  what: str,
  path: str,
  function: Callable[[], _T],
  *,
  passes: Callable[[Exception], bool] | None = None,
  retries: Retries | None = None,
) -> _T:
  """Calls a function that reads or writes files, with retries for a URL; returns its result.

  Args:
    what: the function's purpose, for messages: "read", "write the checkpoint".
    path: the file or the folder.
    function: repeatable, even after a try that did a part of its work.
    passes: whether a further error may pass.
    retries: the limits; default: RETRIES.

  Raises:
    StorageError: it failed until the time was over.
    DeniedError: this account lacks the permission.
  """
  if not is_remote(path):
    return function()
  retries = retries or RETRIES
  store = "/".join(path.split("/")[:3])
  start, attempt = retries.clock(), 0
  while True:
    attempt += 1
    try:
      result = function()
      _failing_since.pop(store, None)
      return result
    except tf.errors.PermissionDeniedError as error:
      raise DeniedError(
        f"Cannot {what} {path}: this account may not ({errors.first_line(error)}). Give it the "
        "right, or another path, such as --model_dir."
      ) from error
    except Exception as error:
      if not isinstance(error, TRANSIENT) and not (passes is not None and passes(error)):
        _failing_since.pop(store, None)
        raise
      now, pause = retries.clock(), retries.pause(attempt)
      waited, failing = now - start, now - _failing_since.setdefault(store, start)
      if max(waited, failing) + pause > retries.total_seconds:
        raise errors.StorageError(
          f"Cannot {what} {path}: it failed {attempt} time{'s' * (attempt > 1)} in {waited:.0f} s, "
          f"in the end with {type(error).__name__}: {errors.first_line(error)}. Run the same "
          "command when the storage answers; a training resumes from its newest checkpoint."
        ) from error
      log = logging.warning if attempt == 1 else logging.info
      log(
        "Cannot %s %s now, and tries again in %.1f s: %s",
        what,
        path,
        pause,
        errors.first_line(error),
      )
      retries.sleep(pause)


def _change(what, path, function, is_done, retries=None):
  """Retries a change that fails on repetition, unless `is_done` shows its success."""
  tries = 0

  def attempt():
    nonlocal tries
    tries += 1
    try:
      function()
    except (tf.errors.NotFoundError, tf.errors.AlreadyExistsError):
      if tries == 1 or not is_done():
        raise

  retry(what, path, attempt, retries=retries)


# Recent changes of this process: path → (made (True) or removed (False), time).
_changed: dict[str, tuple[bool, float]] = {}
_changed_lock = threading.Lock()


def _note(path, is_there):
  if not is_remote(path):
    return
  now = RETRIES.clock()
  with _changed_lock:
    while _changed and next(iter(_changed.values()))[1] < now - _LISTINGS_BEHIND_SECONDS:
      del _changed[next(iter(_changed))]
    _changed.pop(path, None)  # So that the oldest comes first.
    _changed[path] = is_there, now


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

  names = retry("list", path, lambda: tf.io.gfile.listdir(path), passes=may_pass)
  if not is_remote(path):
    return names
  with _changed_lock:
    changed = [(own, is_there) for own, (is_there, _) in _changed.items()]
  folder, shown = path.rstrip("/"), {name.rstrip("/") for name in names}
  for own, is_there in changed:
    parent, _, name = own.rpartition("/")
    if parent != folder or (name in shown) == is_there or exists(own) != is_there:
      continue
    names = [*names, name] if is_there else [each for each in names if each.rstrip("/") != name]
  return names


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
  _note(path.rstrip("/"), True)


def read(path: str, mode: str = "r", retries: Retries | None = None) -> Any:
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

  content = retry("read", path, once, retries=retries)
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
  _note(path, True)


def _clear(path):
  """Removes a file of ram://, where TensorFlow appends to an existing file."""
  if path.startswith("ram://"):
    with contextlib.suppress(tf.errors.NotFoundError):
      tf.io.gfile.remove(path)


def copy(source: str, target: str, overwrite: bool = False, retries: Retries | None = None) -> None:
  """Copies a file."""
  both = target if is_remote(target) else source
  if is_remote(both) and not overwrite and exists(target):
    raise tf.errors.AlreadyExistsError(None, None, f"{target} is there already")

  def once():
    _clear(target)
    tf.io.gfile.copy(source, target, overwrite=overwrite or is_remote(both))

  retry(
    f"copy {source} to" if both == target else f"copy to {target} from", both, once, retries=retries
  )
  _note(target, True)


def rename(
  source: str, target: str, overwrite: bool = False, retries: Retries | None = None
) -> None:
  """Renames a file. On a disk, also a folder."""
  _change(
    f"rename {source} to",
    target,
    lambda: tf.io.gfile.rename(source, target, overwrite=overwrite),
    lambda: exists(target) and not exists(source),
    retries,
  )
  _note(source, False)
  _note(target, True)


def remove(path: str) -> None:
  """Removes a file.

  Raises:
    NotFoundError: there was none.
  """
  _change("remove", path, lambda: tf.io.gfile.remove(path), lambda: True)
  _note(path, False)


def rmtree(path: str) -> None:
  """Removes a folder and everything in it.

  Raises:
    NotFoundError: the folder is missing.
  """
  if not is_remote(path):
    tf.io.gfile.rmtree(path)
    return
  # One by one: a stale listing has deleted names, and gfile.rmtree fails at them.
  for name in listdir(path):
    child = os.path.join(path, name.rstrip("/"))
    try:
      (rmtree if isdir(child) else remove)(child)
    except tf.errors.NotFoundError:
      continue
  # The folder itself remains. An object store has no folders, and with a stale listing it takes the
  # folder for full: it stays, without a file.
  with contextlib.suppress(tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
    retry("remove", path, lambda: tf.io.gfile.rmtree(path))
  _note(path.rstrip("/"), False)
