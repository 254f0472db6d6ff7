"""Keeps what was read of files for as long as the files stay the same.

@file_cache.until_changed(maxsize=8)
def load(path, columns): ...
"""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def until_changed(maxsize: int) -> Callable[[Callable], Callable]:
  """Makes a decorator that caches a function until a file changes.

  The first argument of the function is the path or glob of its files, local or gs://. The result
  also depends on the sizes and times of these files, so a file written anew is read anew.

  Args:
    maxsize: the most results to keep.
  """

  def decorator(function):
    @functools.lru_cache(maxsize)
    def cached(stamps, *arguments):
      del stamps
      return function(*arguments)

    @functools.wraps(function)
    def call(path: str, *arguments: Any) -> Any:
      return cached(_stamps(path), path, *arguments)

    return call

  return decorator


def _stamps(path):
  """Returns (path, size, time) of each file; () without a file, which the reader reports."""
  try:
    files = [path] if tf.io.gfile.exists(path) else sorted(tf.io.gfile.glob(path))
    stats = [(file, tf.io.gfile.stat(file)) for file in files]
  except tf.errors.OpError:
    return ()
  return tuple((file, stat.length, stat.mtime_nsec) for file, stat in stats)
