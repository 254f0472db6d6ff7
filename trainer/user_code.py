"""Tells the user's own code from Python's, from that of installed packages and from Octet's."""

import os
import sysconfig

# With a separator at their ends, so that they are folders' names and no beginnings of others.
_FOLDERS_OF_OTHERS = tuple(
  os.path.join(folder, "")
  for folder in (
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    os.path.dirname(os.path.abspath(__file__)),
  )
)


def is_users(file: str) -> bool:
  """Returns whether the Python file of a path is the user's own."""
  return not os.path.abspath(file).startswith(_FOLDERS_OF_OTHERS)
