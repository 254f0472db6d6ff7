"""The names of checkpoints' files, which can be known without TensorFlow."""

import re
from collections.abc import Iterable

PREFIX = "model.ckpt"
DATA = ".data-00000-of-00001"  # the ending of the file of values, where there is one
STATE = "checkpoint"  # the file that names the checkpoints, and how

_NAME = re.compile(re.escape(PREFIX) + r"-\d+")
_INDEX = re.compile(re.escape(PREFIX) + r"-(\d+)\.index")


def steps(names: Iterable[str]) -> list[int]:
  """Returns the steps of the checkpoints among the names of a folder's files, oldest first."""
  return sorted(int(match[1]) for match in map(_INDEX.fullmatch, names) if match)


def is_of_training(path: str) -> bool:
  """Whether a path has the name of a checkpoint that a training writes, and may remove."""
  return _NAME.fullmatch(path.rpartition("/")[2]) is not None
