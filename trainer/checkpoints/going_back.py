"""Goes back to an earlier checkpoint that a person has named in the file `checkpoint`.

    model_checkpoint_path: "model.ckpt-200"      changed by hand, from "model.ckpt-400"

As long as the file says so, later checkpoints do not count. At its beginning a training moves their
files aside, and deletes none:

    <model_dir>/set_aside-1/model.ckpt-400.*     the later checkpoints, with what stands beside them
    <model_dir>/set_aside-1/evaluations.json     their evaluations
    <model_dir>/set_aside-1/export/...           what exporters remember of them

Before the first move, the file `checkpoint` gets the name of the folder. A process that comes after
a killed one finds it there and moves the rest. The last write takes the name out again.
"""

import contextlib
import os
import re
from collections.abc import Callable, Sequence

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import file_names, leases, state_file
from trainer.io import files, storage

_FOLDER = "set_aside-"

# directory → the content of its file `checkpoint` at the last log line.
_logged: dict[str, state_file.State] = {}

# Moves one kind of records of steps after a step from a model_dir to a folder: function of
# (model_dir, step, folder). After a killed process, a second call moves the rest.
Mover = Callable[[str, int, str], None]


def asked_step(directory: str, state: state_file.State | None, steps: Sequence[int]) -> int | None:
  """Returns the step that a person wants to go back to, or None.

  Octet's own files ask for nothing, even old ones. Neither do files of other programs, and of
  earlier versions of Octet, that name the newest checkpoint.

  Args:
    directory: the folder.
    state: the content of its file `checkpoint`.
    steps: the steps of all its checkpoints, oldest first.

  Raises:
    CheckpointNotFoundError: the edited file names a checkpoint that does not exist.
  """
  if state is None or not state.newest or not steps or not state.may_go_back:
    return None
  step = file_names.step_of(state.newest)
  if step in steps and not _is_elsewhere(directory, state.newest):
    return None if step == steps[-1] else step
  # Somebody removed the newest checkpoints after the file was written, or did not copy them with
  # it. Or the folder is a copy of another folder, and the file has the other's path.
  listed = {earlier for earlier in steps if step is not None and earlier <= step}
  if (
    step is not None
    and step >= steps[-1]
    and state.newest in state.listed[-1:]  # As every program writes it.
    and listed <= state.listed_steps()
  ):
    return None
  raise errors.CheckpointNotFoundError(
    f"{os.path.join(directory, file_names.STATE)} names {state.newest!r}, and {directory} has no "
    f"such checkpoint: name one of the steps {', '.join(map(str, steps))}, such as "
    f"{file_names.PREFIX}-{steps[-1]}, or remove the file to resume from the newest."
  )


def log_edit(
  directory: str, state: state_file.State | None, steps: Sequence[int], asked: int | None
) -> None:
  """Logs, once for each change, that a person has changed the file `checkpoint`."""
  if state is None or not steps or (asked is None and state.newest):
    _logged.pop(directory, None)
    return
  if _logged.get(directory) == state:
    return
  _logged[directory] = state
  path = os.path.join(directory, file_names.STATE)
  if asked is None:
    logging.warning("%s names no checkpoint to resume from: Octet takes the newest.", path)
  else:
    logging.warning(
      "A change of %s makes %s (step %d) the newest checkpoint: Octet ignores the later ones (%s).",
      path,
      state.newest,
      asked,
      _steps_text([step for step in steps if step > asked]),
    )


def _steps_text(steps):
  return f"step{'s' * (len(steps) > 1)} {', '.join(map(str, steps))}"


def _is_elsewhere(directory, path):
  """Whether a path leads to a checkpoint in another folder.

  Without such a folder, somebody moved this folder after the write of the path.
  """
  folder = os.path.dirname(path if storage.is_remote(path) else os.path.join(directory, path))
  if storage.is_remote(folder) or storage.is_remote(directory):
    is_same = folder.rstrip("/") == directory.rstrip("/")
  else:
    is_same = os.path.realpath(folder) == os.path.realpath(directory)
  return not is_same and storage.exists(os.path.join(folder, os.path.basename(path) + ".index"))


def set_aside(
  directory: str,
  state: state_file.State,
  kept: Sequence[int],
  later: Sequence[int],
  movers: Sequence[Mover],
  write_state: Callable[[Sequence[int], str], object],
) -> None:
  """Moves everything after a checkpoint aside.

  Only the process that writes checkpoints may call this.

  Args:
    directory: the model_dir.
    state: the content of its file `checkpoint`.
    kept: the steps of the checkpoints up to the one to go back to.
    later: the steps of the other checkpoints, except those that an earlier process moved.
    movers: they move the records of later steps.
    write_state: writes the file `checkpoint`: function of the steps, and of State.aside.

  Raises:
    OutputError: a move failed. The same call moves the rest.
  """
  asked = kept[-1]
  name = state.aside or _new_name(directory)
  folder = os.path.join(directory, name)
  try:
    # The order is important: from here on every later process finds the folder's name, and at the
    # end nothing is left to move.
    write_state(kept, name)
    storage.makedirs(folder)
    for move in movers:
      move(directory, asked, folder)
    for file in _files_of_later(directory, asked):
      with contextlib.suppress(tf.errors.NotFoundError):  # Its process has removed it.
        storage.rename(os.path.join(directory, file), os.path.join(folder, file), overwrite=True)
    write_state(kept, "")
  except (tf.errors.OpError, OSError) as error:
    if isinstance(error, errors.OctetError):
      raise
    raise errors.OutputError(
      f"Cannot move the checkpoints after step {asked} in {directory} (--model_dir) to {folder}: "
      f"{files.reason(error)}."
    ) from error
  logging.warning(
    "Going back to step %d, as %s says: the later checkpoints (%s) and their records are in %s.",
    asked,
    os.path.join(directory, file_names.STATE),
    _steps_text(later) if later else "moved before",
    folder,
  )


def _new_name(directory):
  """Returns the first unused name of a folder for files to set aside."""
  names = [os.path.basename(path) for path in files.matching(directory, f"{_FOLDER}*")]
  numbers = [int(name.removeprefix(_FOLDER)) for name in names if re.search(r"-\d+$", name)]
  return f"{_FOLDER}{max(numbers, default=0) + 1}"


def _files_of_later(directory, step):
  """Returns the names of the files of checkpoints after a step, each index first.

  Without its index the rest is no checkpoint. Leases stay, since their readers remove them.
  """
  found = []
  for name in storage.listdir(directory):
    match = re.match(rf"{re.escape(file_names.PREFIX)}-(\d+)\.", name)
    if match and int(match[1]) > step and leases.LEASE not in name:
      found.append((not name.endswith(".index"), name))
  return [name for _, name in sorted(found)]
