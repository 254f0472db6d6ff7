"""Local folders and files that a command writes, without TensorFlow.

    local_files.make_folder("out/sweep", "--sweep_dir")
    local_files.write("out/sweep/trials.csv", text, "--sweep_dir")

`trainer.io.files` writes to any file system, but imports TensorFlow, and that takes seconds.
"""

import contextlib
import os

from trainer import errors


def make_folder(path: str, flag: str) -> None:
  """Makes a folder and its parents, unless they exist.

  Args:
    path: the folder.
    flag: the flag that names it, for the message.

  Raises:
    OutputError: it cannot make the folder.
  """
  try:
    os.makedirs(path, exist_ok=True)
  except OSError as error:
    raise errors.OutputError(f"Cannot make the folder {path} ({flag}): {error}") from error


def write(path: str, content: str | bytes, flag: str) -> None:
  """Writes a file completely or not at all.

  Args:
    path: the file.
    content: the complete content.
    flag: the flag that names the file or its folder, for the message.

  Raises:
    OutputError: it cannot write the file.
  """
  aside = f"{path}.writing-{os.getpid()}"
  try:
    with open(aside, "wb") as file:
      file.write(content.encode() if isinstance(content, str) else content)
    os.replace(aside, path)
  except OSError as error:
    with contextlib.suppress(OSError):
      os.remove(aside)  # On a full disk, half a file would take the rest.
    raise errors.OutputError(f"Cannot write {path} ({flag}): {error}") from error
