"""Tells the user's own code from the code of Python, of installed packages and of Octet."""

import os
import pathlib
import sysconfig

# The separator at the end makes "/lib" match the folder and not "/library".
_FOLDERS_OF_OTHERS = tuple(
  os.path.join(folder, "")
  for folder in (
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
  )
)


# Packages also lie in the user's site folder, and in the site folder of the Python below a virtual
# environment.
_INSTALLED = {"site-packages", "dist-packages"}


def is_users(file: str) -> bool:
  """Returns whether the Python file of a path is the user's own."""
  path = os.path.abspath(file)
  return not path.startswith(_FOLDERS_OF_OTHERS) and _INSTALLED.isdisjoint(
    pathlib.PurePath(path).parts
  )
