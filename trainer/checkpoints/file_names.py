"""The names of checkpoints' files, without TensorFlow."""

import contextlib
import re
from collections.abc import Iterable

from etils import epath

PREFIX = "model.ckpt"
DATA = ".data-00000-of-00001"  # The ending of the file of values, if a checkpoint has one file.
STATE = "checkpoint"  # The file with the checkpoints' names, and its form.

_NAME = re.compile(re.escape(PREFIX) + r"-(\d+)")


def steps(names: Iterable[str]) -> list[int]:
  """Returns the steps of the checkpoints among the names of a folder's files, oldest first."""
  found = (step_of(name.removesuffix(".index")) for name in names if name.endswith(".index"))
  return sorted(step for step in found if step is not None)


def written(folder: epath.Path) -> list[tuple[int, int, float]]:
  """Returns (step, bytes, time of writing in seconds) of the checkpoints in a folder, oldest first.

  It leaves out checkpoints that a training removes meanwhile, and looks again if no other remains.
  """
  before: list[int] | None = None
  while True:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    listed, found = steps(names), []
    for step in listed:
      endings = (f"{PREFIX}-{step}.index", f"{PREFIX}-{step}.data-")
      with contextlib.suppress(FileNotFoundError):
        stats = [(folder / name).stat() for name in names if name.startswith(endings)]
        size = sum(stat.length for stat in stats)
        found.append((step, size, max(stat.mtime for stat in stats)))
    # A dangling link is in every listing, and never readable.
    if found or listed == before or not listed:
      return found
    before = listed


def step_of(path: str) -> int | None:
  """Returns the step of a checkpoint; None if no training gives such a name."""
  found = _NAME.fullmatch(path.rpartition("/")[2])
  return int(found[1]) if found else None


def is_of_training(path: str) -> bool:
  """Whether a path has the name of a checkpoint that a training writes, and may remove."""
  return step_of(path) is not None
