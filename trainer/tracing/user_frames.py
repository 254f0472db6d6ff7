"""Finds the user's own line in a stack trace, for error messages."""

import os
from collections.abc import Sequence

from trainer import spec
from trainer.cli import user_code


def innermost(frames: Sequence[tuple[str, int | str]]) -> tuple[str, int | str]:
  """Finds the innermost frame in the user's own code.

  Args:
    frames: (file, line) of each frame, the outermost first. Absolute paths may lack the leading
      slash, as TensorFlow writes them.

  Returns:
    (file, line) of the innermost frame that is outside of Python, installed packages and Octet;
    ("", 0) if there is none.
  """
  for file, line in reversed(frames):
    if not os.path.isabs(file) and os.path.exists(os.sep + file):
      file = os.sep + file
    if os.path.basename(file).startswith("__autograph_generated_file"):
      continue  # AutoGraph's own, called from the user's
    if not file.startswith("<") and user_code.is_users(file):
      return file, line
  return "", 0


def inside_model_fn(frames: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
  """Returns the frames below Octet's innermost call of a model_fn; none if there is no such call.

  Args:
    frames: (file, line) of each frame, the outermost first.
  """
  calls = [index for index, (file, _) in enumerate(frames) if file == spec.__file__]
  return frames[calls[-1] + 1 :] if calls else []


def where(frames: Sequence[tuple[str, int | str]]) -> str:
  """Formats `innermost` for the end of a message: " (model.py:34)", or "" if there is none."""
  file, line = innermost(frames)
  return f" ({file}:{line})" if file else ""
