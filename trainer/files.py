"""Files that are there whole or not at all, local or of any file system that tf.io.gfile knows.

    with files.whole("out/digits/evaluations.json") as file:
      file.write(text)
"""

import contextlib

import tensorflow as tf


@contextlib.contextmanager
def whole(path, mode="w"):
  """Yields a file that is written beside its place, as `<path>.writing`, and put there when nothing was raised.

  Args:
    path: where; what is there is replaced.
    mode: "w" or "wb".

  Raises:
    OSError, tf.errors.OpError: it cannot be written.
  """
  with tf.io.gfile.GFile(path + ".writing", mode) as file:
    file.write("" if mode == "w" else b"")  # which makes the file, also where nothing is written to it
    yield file
  tf.io.gfile.rename(path + ".writing", path, overwrite=True)
