"""Tells the user's own code from Python's, from that of installed packages and from Octet's."""

import os
import pathlib
import sysconfig

# With a separator at their ends, so that they are folders' names and no beginnings of others.
_FOLDERS_OF_OTHERS = tuple(
  os.path.join(folder, "")
  for folder in (
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
  )
)


# Packages also lie in the user's site folder, or in that of the Python below a virtual environment.
_INSTALLED = {"site-packages", "dist-packages"}


def is_users(file: str) -> bool:
  """Returns whether the Python file of a path is the user's own."""
  path = os.path.abspath(file)
  return not path.startswith(_FOLDERS_OF_OTHERS) and _INSTALLED.isdisjoint(
    pathlib.PurePath(path).parts
  )
