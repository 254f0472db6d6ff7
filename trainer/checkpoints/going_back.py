"""Goes back to an earlier checkpoint that a person has named in the file `checkpoint`.

    model_checkpoint_path: "model.ckpt-200"      changed by hand, from "model.ckpt-400"

As long as the file says so, later checkpoints do not count. At its beginning a training moves their
files aside, and deletes none; then it writes the file anew:

    <model_dir>/set_aside-1732283000/            named by the time of the edit
      model.ckpt-400.*                           the later checkpoints, with what stands beside them
      evaluations.json                           their evaluations
      export/...                                 what exporters remember of them

A process that comes after a killed one finds the edited file, and moves the rest.
"""

import os
import re
from collections.abc import Callable, Sequence

from absl import logging

from trainer import errors
from trainer.checkpoints import file_names, leases, state_file
from trainer.io import storage

# Moves one kind of records of steps after a step from a model_dir to a folder: function of
# (model_dir, step, folder). After a killed process, a second call moves the rest.
Mover = Callable[[str, int, str], None]

_FILE = re.compile(rf"{re.escape(file_names.PREFIX)}-(\d+)\.")


def asked_step(directory: str, state: state_file.State | None, steps: Sequence[int]) -> int | None:
  """Returns the step that a person wants to go back to, or None.

  Octet's own files ask for nothing, even old ones. Neither do files of other programs, and of
  earlier versions of Octet, that name the newest checkpoint, or a removed one that was newer.

  Args:
    directory: the folder.
    state: the content of its file `checkpoint`.
    steps: the steps of all its checkpoints, oldest first.

  Raises:
    CheckpointNotFoundError: the edited file names a checkpoint that does not exist.
  """
  if state is None or state.is_own or not state.newest or not steps:
    return None
  step = file_names.step_of(state.newest)
  if step in steps[:-1]:
    return step
  # A program's file lists all checkpoints; somebody may have removed the newest ones since.
  is_removed = step is not None and step > steps[-1] and {*steps, step} <= state.steps
  if step == steps[-1] or is_removed:
    return None
  raise errors.CheckpointNotFoundError(
    f"{os.path.join(directory, file_names.STATE)} names {state.newest!r}, and {directory} has no "
    f"such checkpoint: name one of the steps {', '.join(map(str, steps))}, such as "
    f"{file_names.PREFIX}-{steps[-1]}, or remove the file to resume from the newest."
  )


def set_aside(directory: str, step: int, movers: Sequence[Mover]) -> str:
  """Moves everything after a step aside, and returns the path of its folder.

  Only the process that writes checkpoints may call this. After a killed process, a second call
  moves the rest.
  """
  edited = storage.stat(os.path.join(directory, file_names.STATE)).mtime_nsec // 10**9
  folder = os.path.join(directory, f"set_aside-{edited}")
  storage.makedirs(folder)
  for move in movers:
    move(directory, step, folder)
  matches = [match for name in storage.listdir(directory) if (match := _FILE.match(name))]
  # Each index last: as long as one is there, the file `checkpoint` asks to go back. Leases stay,
  # since their readers remove them.
  names = [match.string for match in matches if int(match[1]) > step]
  for name in sorted(names, key=lambda name: (name.endswith(".index"), name)):
    if leases.LEASE not in name:
      storage.rename(os.path.join(directory, name), os.path.join(folder, name), overwrite=True)
  logging.warning(
    "Going back to step %d, as %s says: the later checkpoints and their records are in %s.",
    step,
    os.path.join(directory, file_names.STATE),
    folder,
  )
  return folder
