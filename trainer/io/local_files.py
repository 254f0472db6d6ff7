"""Local folders and files that a command writes, without TensorFlow.

    local_files.make_folder("out/sweep", "--sweep_dir")
    local_files.write("out/sweep/trials.csv", text, "--sweep_dir")

`trainer.io.files` writes to any file system, but imports TensorFlow, and that takes seconds.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

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


@contextlib.contextmanager
def write_atomically(path: str, mode: str, aside: str) -> Iterator[Any]:
  """Yields a new file; it replaces the file at a path if the block raises nothing.

  Args:
    path: the file to write or replace.
    mode: "w" or "wb".
    aside: the path of the new file until then, which no other writer uses.

  Raises:
    OSError: it cannot write the file.
  """
  try:
    with open(aside, mode, encoding=None if "b" in mode else "utf-8") as file:
      yield file
    # Only after the file closes: until then a buffer may hold some of the text.
    os.replace(aside, path)
  except BaseException:  # Also KeyboardInterrupt. On a full disk, half a file would take the rest.
    with contextlib.suppress(OSError):
      os.remove(aside)
    raise


def write(path: str, content: str | bytes, flag: str) -> None:
  """Writes a file completely or not at all.

  Args:
    path: the file.
    content: the complete content.
    flag: the flag that names the file or its folder, for the message.

  Raises:
    OutputError: it cannot write the file.
  """
  mode = "w" if isinstance(content, str) else "wb"
  try:
    with write_atomically(path, mode, f"{path}.writing-{os.getpid()}") as file:
      file.write(content)
  except OSError as error:
    raise errors.OutputError(f"Cannot write {path} ({flag}): {error}") from error
