"""Finds what a library keeps to itself, and says plainly where its version has no such thing.

    BaseOptimizer = private_names.find("keras.src.optimizers.base_optimizer.BaseOptimizer")

`trainer.internals.tensorflow_internals` and `trainer.internals.keras_internals` are the files that
use it, one for each library; `trainer.config.gin_internals` is gin's.
"""

import importlib
from typing import Any

from trainer import errors

_LIBRARIES = {"keras": "Keras", "tensorflow": "TensorFlow"}


def find(path: str) -> Any:
  """What has this path: a module, or what is in one.

  Args:
    path: names with dots between them, the first of which is the library's package.

  Raises:
    errors.VersionError: the installed version has no such thing.
  """
  first, *names = path.split(".")
  found, at = importlib.import_module(first), first
  for name in names:
    at += f".{name}"
    if hasattr(found, name):
      found = getattr(found, name)
      continue
    try:  # a module that nobody has imported yet, or that TensorFlow hides
      found = importlib.import_module(at)
    except ImportError as error:
      raise errors.VersionError(_missing(first, path)) from error
  return found


def member(path: str, is_needed: bool = True) -> tuple[Any, str] | None:
  """(owner, name) of what has this path, as `patches.replaces` takes them.

  Args:
    path: see `find`.
    is_needed: whether to raise as `find` does where it is missing; else None is returned.
  """
  try:
    find(path)
  except errors.VersionError:
    if is_needed:
      raise
    return None
  owner, _, name = path.rpartition(".")
  return find(owner), name


def _missing(library, path):
  version = importlib.import_module(library).__version__
  return (
    f"{_LIBRARIES[library]} {version} has no {path}, which Octet needs: "
    f"install a version of {library} that Octet's setup.py names."
  )
