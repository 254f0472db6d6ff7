"""Finds private names of a library; the error says which version of the library lacks the name.

    BaseOptimizer = private_names.find("keras.src.optimizers.base_optimizer.BaseOptimizer")

`trainer.internals.tensorflow_internals` and `trainer.internals.keras_internals` use it, one file
for each library. `trainer.config.gin_internals` does the same for gin.
"""

import importlib
from typing import Any

from trainer import errors

_LIBRARIES = {"keras": "Keras", "tensorflow": "TensorFlow"}


def find(path: str) -> Any:
  """Imports and returns the object at a path: a module, class, function or attribute.

  Args:
    path: a dotted path that starts with the library's package, such as
      "keras.src.utils.naming.to_snake_case".

  Raises:
    VersionError: the installed version of the library has no such name.
  """
  first, *names = path.split(".")
  found, at = importlib.import_module(first), first
  for name in names:
    at += f".{name}"
    if hasattr(found, name):
      found = getattr(found, name)
      continue
    try:  # a module that is not imported yet, or that TensorFlow hides from its parent
      found = importlib.import_module(at)
    except ImportError as error:
      raise errors.VersionError(_missing(first, path)) from error
  return found


def member(path: str) -> tuple[Any, str]:
  """Returns the first two arguments of `patches.replaces` for a path: (owner, name).

  Raises:
    VersionError: the installed version of the library has no such name.
  """
  find(path)
  owner, _, name = path.rpartition(".")
  return find(owner), name


def member_if_any(path: str) -> tuple[Any, str] | None:
  """Returns the result of `member`, or None if the installed version lacks the name."""
  try:
    return member(path)
  except errors.VersionError:
    return None


def _missing(library, path):
  version = importlib.import_module(library).__version__
  return (
    f"{_LIBRARIES[library]} {version} lacks {path}, and Octet needs it: install a version of "
    f"{library} that Octet's setup.py names."
  )
