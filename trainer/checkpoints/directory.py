"""The checkpoints of a run: every variable under its name, in TensorFlow's own format.

A checkpoint exists completely or not at all. Layout of a model_dir:

    model.ckpt-1200.index                   names, shapes, dtypes and checksums; the checkpoint
                                            exists as soon as this file does
    model.ckpt-1200.data-00000-of-00001     the values; variables are float32 in any precision
    checkpoint                              the newest complete one, for
                                            tf.train.latest_checkpoint; paths are relative, so the
                                            folder can be moved. Whoever edits it goes back to an
                                            earlier one, see `going_back`
    .writing-*                              left by a process that was killed while writing; the
                                            next process completes or removes it

A key is a variable's name (`conv2d_1/kernel`). The key says nothing about devices or replicas, so
one core can read the checkpoint of eight cores. `tf.train.load_checkpoint` and
`tf.compat.v1.train.Saver` can read these files. The keys `examples_seen` and `input_ended` are the
position in the training data, see `trainer.checkpoints.data_position`.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import (
  background_save,
  commit,
  file_names,
  going_back,
  inspector,
  leases,
  retention,
  state_file,
)
from trainer.io import files, storage

# A save checks whether so many of the newest checkpoints have changed since this process wrote or
# read them: a training resumes from these. The time does not grow with the number of others.
_LOOKED_AT = 10

_logged: set[str] = set()  # What this process has logged about edits of the file `checkpoint`.


class CheckpointDirectory:
  """The checkpoints of one model_dir. The constructor neither reads nor writes.

  Args:
    directory: the folder, on any file system that tf.io.gfile can open.
    keep: the rules for the checkpoints to keep; default: the five newest.
    on_failure: what to do if a checkpoint's write fails: "raise" an OutputError, or "warn" and
      train on until the next save. The last save of a training raises in any case, see `wait`.
    movers: they move the records of later steps when a training goes back, see `going_back`.
    read_scores: function of the names of the folder's files that returns step → value of the metric
      of Retention.best; without it no checkpoint counts as one of the best.
  """

  def __init__(
    self,
    directory: str,
    keep: retention.Retention | None = None,
    on_failure: str = "raise",
    movers: Sequence[going_back.Mover] = (),
    read_scores: Callable[[Collection[str]], Mapping[int, float]] = lambda names: {},
  ) -> None:
    self.directory = directory
    self._keep = keep or retention.Retention()
    self._movers = movers
    self._read_scores = read_scores
    self._ignores_edits = False  # See `ignore_edits`.
    self._is_recovered = False
    self._inspector = inspector.Inspector()
    self._background = background_save.BackgroundSave(
      f"{directory} (--model_dir)", on_failure, self._what_is_saved
    )

  def steps(self) -> list[int]:
    """Lists the steps of the checkpoints, oldest first.

    If a person has named a checkpoint in the file `checkpoint`, the later ones do not count.

    Raises:
      CheckpointNotFoundError: the named checkpoint does not exist.
    """
    return self._steps()[0]

  def passed_over(self) -> list[int]:
    """Lists the steps of the checkpoints that `steps` leaves out."""
    return self._steps()[1]

  def _steps(self):
    """Returns the steps of the checkpoints that count, and of the others."""
    # Read the file before the listing: if another training goes back in between, the listing then
    # has only checkpoints that the file knew.
    state = self._read_state()
    try:
      steps = file_names.steps(storage.listdir(self.directory))
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
      return [], []
    asked = None
    if not self._ignores_edits:
      asked = going_back.asked_step(self.directory, state, steps)
    if asked is None:
      return steps, []
    later = [step for step in steps if step > asked]
    message = (
      f"A change of {self._state_path} makes {state.newest} (step {asked}) the newest checkpoint: "
      f"Octet ignores the later ones (step{'s' * (len(later) > 1)} {', '.join(map(str, later))})."
    )
    if message not in _logged:
      _logged.add(message)
      logging.warning("%s", message)
    return [step for step in steps if step <= asked], later

  def path(self, step: int) -> str:
    """Returns the path of a step's checkpoint, for arguments named checkpoint_path."""
    return os.path.join(self.directory, f"{file_names.PREFIX}-{step}")

  def latest_valid(self) -> str | None:
    """Finds the newest readable checkpoint; logs a warning for each damaged one.

    Returns:
      Its path, or None if there are no checkpoints.

    Raises:
      CheckpointDamagedError: there are checkpoints, but all are damaged.
    """
    self.wait()
    return leases.until_served(self._latest_valid)

  def _latest_valid(self):
    """Does the work of `latest_valid`; raises GoneError if a checkpoint vanished meanwhile."""
    damaged: list[str] = []
    for step in reversed(self.steps()):
      path = self.path(step)
      problem = self._inspector.problem(path)
      if problem is None:
        for message in damaged:
          self._inspector.warn(message, f"Using {path} instead.")
        return path
      damaged.append(problem)
    if damaged:
      raise errors.CheckpointDamagedError(
        " ".join(damaged)
        + f" No other is in {self.directory}: restore one from a backup, or start anew in another "
        "--model_dir."
      )
    return None

  def mark_valid(self, path: str) -> None:
    """Notes that a checkpoint is complete: the chief has just written it."""
    self._inspector.mark_valid(path)

  # ------------------------- for the process that writes the checkpoints

  def save(self, step: int, values: Mapping[str, tf.Tensor]) -> str:
    """Writes a checkpoint in the background, then removes the checkpoints that no rule keeps.

    Returns:
      The path of the future checkpoint.

    Raises:
      OutputError: the write of the previous checkpoint failed. Earlier checkpoints are unchanged.
    """
    values = dict(values)
    # Training may go on while the thread writes. The tensors keep their values: TensorFlow copies a
    # variable's memory before it changes memory that a tensor shares.
    self._background.start(step, lambda: self._write(step, values))
    return self.path(step)

  def _write(self, step, values):
    self.recover()
    # The order is important: old checkpoints go only after the new one is complete.
    commit.save(self.path(step), values)
    self._inspector.mark_valid(self.path(step))
    state = self._read_state()
    if self._ignores_edits and state is not None and not state.is_own:
      self._inspector.warn(
        f"Something changed {self._state_path} during the training; the training writes the file "
        "anew.",
        "To go back to an earlier checkpoint, end the training, change the file, and restart the "
        "training.",
      )
    self._remove_unneeded(step)

  @property
  def has_failed(self) -> bool:
    """Whether the newest save failed with only a warning."""
    return self._background.has_failed

  def wait(self, is_last: bool = False) -> None:
    """Waits until no save is in progress.

    Only the thread that called `save` gets its error, since that thread must not go on. Other
    threads only wait.

    Args:
      is_last: whether no save follows that would make up for this one.

    Raises:
      OutputError: the write of the newest checkpoint failed, and it is the last, or on_failure is
        "raise".
    """
    self._background.wait(is_last)

  def _what_is_saved(self):
    steps = self.steps()
    return (
      f"the newest checkpoint is of step {steps[-1]}" if steps else "there is no checkpoint yet"
    )

  def recover(self) -> None:
    """Commits or removes the leftovers of a process that died while it wrote, on the first call.

    Only the process that writes checkpoints may call this.
    """
    if not self._is_recovered and storage.isdir(self.directory):
      commit.recover(self.directory)
      self._is_recovered = True

  def finish_cut_off_save(self) -> None:
    """Completes the work of a process that died after it wrote a checkpoint.

    The method names the checkpoint in `checkpoint`, and removes the checkpoints that no rule keeps.
    Only the process that writes checkpoints may call this.
    """
    state = self._read_state()
    steps = self.steps()
    if steps and state is not None and state.is_own and state.steps != {*steps}:
      self._remove_unneeded(steps[-1])

  def go_back(self) -> None:
    """Moves aside everything after the checkpoint that a person has named, see `going_back`.

    Only the process that writes checkpoints may call this.

    Raises:
      CheckpointNotFoundError: the named checkpoint does not exist.
      OutputError: a move failed.
    """
    self.wait()
    state = self._read_state()
    steps, later = self._steps()
    if state is None or state.is_own or not steps:
      return
    try:
      if later:
        going_back.set_aside(self.directory, steps[-1], self._movers)
      # Also without later checkpoints: otherwise a process that dies between the next checkpoint
      # and this file would leave a file that looks like a person's edit.
      self._write_state(steps)
    except (tf.errors.OpError, OSError) as error:
      if isinstance(error, errors.OctetError):
        raise
      raise errors.OutputError(
        f"Cannot move the checkpoints after step {steps[-1]} in {self.directory} (--model_dir) "
        f"aside: {files.reason(error)}."
      ) from error

  @contextlib.contextmanager
  def ignore_edits(self) -> Iterator[None]:
    """Ignores, while the context is open, a person's edits of the file `checkpoint`.

    Meanwhile this process's training writes the checkpoints.
    """
    self._ignores_edits = True
    try:
      yield
    finally:
      self._ignores_edits = False

  def _remove_unneeded(self, newest):
    """Removes the checkpoints that no rule keeps, and names the others in `checkpoint`."""
    # Everything below uses this one listing: a bucket takes a second for each 1,000 names.
    names = storage.listdir(self.directory)
    steps = file_names.steps(names)
    unneeded = self._unneeded(steps, names)
    # The order is important: TensorFlow finds no checkpoint if the file names a missing one.
    self._write_state([step for step in steps if step not in unneeded])
    held = retention.held(names) | leases.expire(
      self.directory, names, self._inspector.written_at(self.path(newest))
    )
    for step in unneeded:
      path = self.path(step)
      if os.path.basename(path) in held:
        continue
      data = f"{os.path.basename(path)}.data-"
      try:
        data_files = [os.path.join(self.directory, name) for name in names if name.startswith(data)]
        commit.remove(path, data_files)
        self._inspector.mark_removed(path)
      # Only a warning: the new checkpoint is complete, and the training can continue.
      except (tf.errors.OpError, errors.StorageError) as error:
        self._inspector.warn(
          f"Cannot remove the old checkpoint {path}: {files.reason(error)}.", "It stays."
        )

  def _unneeded(self, steps, names):
    """Returns the steps of the checkpoints that no rule keeps.

    All kept checkpoints are sound: a damaged one does not count as kept. The rules remove a damaged
    one when its turn comes.
    """
    times = self._inspector.written_at if self._keep.every_n_hours else lambda path: 0.0
    counted = {step: times(self.path(step)) for step in steps}
    metrics = self._read_scores(names) if self._keep.best else {}
    newest, there = set(steps[-_LOOKED_AT:]), set(names)

    def problem_of(step):
      path = self.path(step)
      has_data = os.path.basename(path) + file_names.DATA in there
      return self._inspector.problem(path, looks_again=step in newest or not has_data)

    # A damaged checkpoint among the kept ones leaves the count, and the loop chooses again without
    # it: an older one stays instead.
    while removable := self._keep.to_remove(counted, metrics):
      try:
        kept = counted.keys() - set(removable)
        damaged = {step: problem for step in kept if (problem := problem_of(step))}
      except (errors.CheckpointError, errors.CheckpointNotFoundError, errors.StorageError) as error:
        logging.warning("%s Octet removes no checkpoint this time.", error)
        return []
      if not damaged:
        break
      for step, problem in damaged.items():
        del counted[step]
        self._inspector.warn(problem, "This checkpoint does not count as kept.")
    return removable

  @property
  def _state_path(self):
    return os.path.join(self.directory, file_names.STATE)

  def _read_state(self):
    """Returns the content of the file `checkpoint`; None if there is none."""
    try:
      text = storage.read(self._state_path, "rb")
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
      return None
    except tf.errors.PermissionDeniedError as error:
      raise errors.CheckpointError(
        f"Cannot read {self._state_path}: {files.reason(error)}."
      ) from error
    return state_file.parse(text.decode(errors="replace"))

  def _write_state(self, steps):
    """Names checkpoints in the file `checkpoint`, without known damaged ones."""
    paths = [path for path in map(self.path, steps) if not self._inspector.known_problem(path)]
    files.write(self._state_path, state_file.compose([os.path.basename(path) for path in paths]))


def resolve(path: str) -> str:
  """Finds a checkpoint, and returns its path.

  Args:
    path: a checkpoint, or a folder (for its newest checkpoint).

  Raises:
    CheckpointNotFoundError: there is none.
    CheckpointDamagedError: the folder has damaged checkpoints only.
  """
  if storage.exists(path + ".index"):
    return path
  newest = CheckpointDirectory(path).latest_valid() if storage.isdir(path) else None
  if newest is None:
    # A shell completes a path to the name of one of its files.
    stem, ending = os.path.splitext(path)
    is_file = ending and storage.exists(f"{stem}.index")
    example = stem if is_file else f"{os.path.join(path, file_names.PREFIX)}-1000"
    raise errors.CheckpointNotFoundError(
      f"There is no checkpoint at {path}: expected a path such as {example}, or a folder."
    )
  return newest
