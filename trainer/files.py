"""Writes files that appear complete or not at all.

Paths may be local or on any file system that tf.io.gfile supports.

Example:
    with files.write_atomically("out/digits/evaluations.json") as file:
      file.write(text)
"""

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Iterator

import tensorflow as tf

# What the system says of a file that this user may not write, and nobody on a read-only disk.
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextlib.contextmanager
def write_atomically(path: str, mode: str = "w") -> Iterator[tf.io.gfile.GFile]:
  """Yields a temporary file beside `path`, which replaces `path` if the block raises nothing.

  The temporary file is `<path>.writing-<host>-<process>-<thread>`, so that two writers never share
  one. The writer that finishes last wins.

  Args:
    path: the file to write or replace.
    mode: "w" or "wb".

  Raises:
    OSError: the file cannot be written.
    tf.errors.OpError: the file cannot be written.
  """
  aside = f"{path}.writing-{socket.gethostname()}-{os.getpid()}-{threading.get_native_id()}"
  try:
    with tf.io.gfile.GFile(aside, mode) as file:
      # GFile creates the file at the first write. Without this one, an empty file would never
      # exist, and the rename would fail.
      file.write("" if mode == "w" else b"")
      yield file
    # Only after the file is closed: until then some of the text may be in a buffer.
    tf.io.gfile.rename(aside, path, overwrite=True)
  except BaseException:  # also KeyboardInterrupt, which would leave the temporary file behind
    with contextlib.suppress(tf.errors.OpError):  # it was never created, or the disk is gone
      tf.io.gfile.remove(aside)
    raise


def is_forbidden(error: BaseException | None) -> bool:
  """Whether an error says that a file may not be written, as on a read-only disk."""
  if isinstance(error, tf.errors.PermissionDeniedError):
    return True
  return isinstance(error, OSError) and error.errno in _FORBIDDEN


def reason(error: Exception) -> str:
  """Returns why a file could not be written or read, without its path: "Disk quota exceeded"."""
  if isinstance(error, OSError):
    return error.strerror or str(error)
  message = getattr(error, "message", None) or str(error)
  return message.rpartition("; ")[2]
