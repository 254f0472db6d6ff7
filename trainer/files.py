"""Files that are there whole or not at all, local or of any file system that tf.io.gfile knows.

Example:
    with files.write_atomically("out/digits/evaluations.json") as file:
      file.write(text)
"""

import contextlib
import os
import socket
import threading

import tensorflow as tf


@contextlib.contextmanager
def write_atomically(path, mode="w"):
  """Yields a file that is written beside its place and put there when nothing was raised.

  What is written beside it is `<path>.writing-<host>-<process>-<thread>`: of two writers each has
  its own, and the file is that of the one that ends last.

  Args:
    path: where; what is there is replaced.
    mode: "w" or "wb".

  Raises:
    OSError, tf.errors.OpError: it cannot be written.
  """
  aside = f"{path}.writing-{socket.gethostname()}-{os.getpid()}-{threading.get_native_id()}"
  try:
    with tf.io.gfile.GFile(aside, mode) as file:
      # Which makes the file, also where nothing is written to it.
      file.write("" if mode == "w" else b"")
      yield file
    tf.io.gfile.rename(aside, path, overwrite=True)
  except BaseException:
    with contextlib.suppress(tf.errors.OpError):  # it was not made, or the disk is gone
      tf.io.gfile.remove(aside)
    raise
