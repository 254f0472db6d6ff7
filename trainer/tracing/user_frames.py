"""Which frame of a stack is the user's, for messages that name a line."""

import os
import sysconfig


def innermost(frames):
  """(file, line) of the innermost frame that is the user's: neither Python's, nor a package's, nor
  the framework's; ("", 0) if there is none.

  Args:
    frames: [(file, line)], the outermost first. TensorFlow writes absolute paths without the
      leading slash.
  """
  libraries = tuple(
    {os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib")}
  )
  framework = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
  for file, line in reversed(frames):
    if not os.path.isabs(file) and os.path.exists(os.sep + file):
      file = os.sep + file
    if not file.startswith("<") and not os.path.abspath(file).startswith((*libraries, framework)):
      return file, line
  return "", 0


def where(frames):
  """The same as ` (model.py:34)`, to stand behind what it is of; "" if there is none."""
  file, line = innermost(frames)
  return f" ({file}:{line})" if file else ""
