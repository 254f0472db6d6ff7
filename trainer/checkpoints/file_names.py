"""The names of checkpoints' files, which can be known without TensorFlow."""

import re
from collections.abc import Iterable

PREFIX = "model.ckpt"
DATA = ".data-00000-of-00001"  # the ending of the file of values, where there is one
STATE = "checkpoint"  # the file that names the checkpoints, and how

_NAME = re.compile(re.escape(PREFIX) + r"-(\d+)")


def steps(names: Iterable[str]) -> list[int]:
  """Returns the steps of the checkpoints among the names of a folder's files, oldest first."""
  found = (step_of(name.removesuffix(".index")) for name in names if name.endswith(".index"))
  return sorted(step for step in found if step is not None)


def step_of(path: str) -> int | None:
  """Returns the step of a checkpoint; None if it has no name as a training gives it."""
  found = _NAME.fullmatch(path.rpartition("/")[2])
  return int(found[1]) if found else None


def is_of_training(path: str) -> bool:
  """Whether a path has the name of a checkpoint that a training writes, and may remove."""
  return step_of(path) is not None
