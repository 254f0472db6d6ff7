"""Lists the checkpoints of a folder, by its files and by its file `checkpoint`."""

import os
from collections.abc import Iterable, Sequence

import tensorflow as tf

from trainer import errors
from trainer.checkpoints import file_names, state_file
from trainer.io import files, storage


def path(directory: str, step: int) -> str:
  """Returns the path of a step's checkpoint."""
  return os.path.join(directory, f"{file_names.PREFIX}-{step}")


def steps(directory: str, names: Iterable[str], state: state_file.State | None) -> list[int]:
  """Returns the steps of the checkpoints in a folder, oldest first.

  Args:
    directory: the folder.
    names: of its files, from a listing.
    state: the content of its file `checkpoint`.
  """
  listed = file_names.steps(names)
  if not storage.is_remote(directory):
    return listed
  # A listing may be stale, and after a killed process so may the state.
  doubtful = set(listed) ^ (state.listed_steps() if state else set())
  gone = {step for step in doubtful if not storage.exists(f"{path(directory, step)}.index")}
  return sorted({*listed, *doubtful} - gone)


def read_state(directory: str) -> state_file.State | None:
  """Reads the file `checkpoint` of a folder; None if there is none.

  Raises:
    CheckpointError: this user may not read it.
  """
  file = os.path.join(directory, file_names.STATE)
  try:
    text = storage.read(file, "rb")
  except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
    return None
  except tf.errors.PermissionDeniedError as error:
    raise errors.CheckpointError(f"Cannot read {file}: {files.reason(error)}.") from error
  return state_file.parse(text.decode(errors="replace"))


def write_state(directory: str, names: Sequence[str], aside: str = "") -> None:
  """Writes the file `checkpoint` of a folder; for the names and `aside` see state_file.compose."""
  with files.write_atomically(os.path.join(directory, file_names.STATE)) as file:
    file.write(state_file.compose(names, aside))
