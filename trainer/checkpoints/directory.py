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
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import tensorflow as tf

from trainer import errors
from trainer.checkpoints import (
  background_save,
  commit,
  file_names,
  going_back,
  inspector,
  leases,
  listing,
  removal,
  retention,
)
from trainer.io import storage


class CheckpointDirectory:
  """The checkpoints of one model_dir. The constructor neither reads nor writes.

  Args:
    directory: the folder, on any file system that tf.io.gfile can open.
    keep: the rules for the checkpoints to keep; default: the five newest.
    on_failure: what to do if a checkpoint's write fails: "raise" an OutputError, or "warn" and
      train on until the next save. The last save of a training raises in any case, see `wait`.
    clock: returns the time in seconds, as time.monotonic does.
    movers: they move the records of later steps when a training goes back, see `going_back`.
    read_scores: function of the names of the folder's files that returns step → value of the metric
      of Retention.best; without it no checkpoint counts as one of the best.
  """

  def __init__(
    self,
    directory: str,
    keep: retention.Retention | None = None,
    on_failure: str = "raise",
    clock: Callable[[], float] = time.monotonic,
    movers: Sequence[going_back.Mover] = (),
    read_scores: Callable[[Collection[str]], Mapping[int, float]] = lambda names: {},
  ) -> None:
    self.directory = directory
    self._movers = movers
    self._ignores_edits = False  # See `ignore_edits`.
    self._is_recovered = False
    self._inspector = inspector.Inspector()
    self._removal = removal.Removal(
      directory, keep or retention.Retention(), self._inspector, clock, read_scores
    )
    self._background = background_save.BackgroundSave(
      f"{directory} (--model_dir)", on_failure, self._what_is_saved
    )

  def steps(self) -> list[int]:
    """Lists the steps of the checkpoints, oldest first.

    If a person has named a checkpoint in the file `checkpoint`, the later ones do not count.

    Raises:
      CheckpointNotFoundError: the named checkpoint does not exist.
    """
    steps, passed_over = self._steps()
    return [step for step in steps if step not in passed_over]

  def passed_over(self) -> list[int]:
    """Lists the steps of the checkpoints that `steps` leaves out."""
    return self._steps()[1]

  def _steps(self):
    """Returns the steps of all checkpoints, and of the ones that do not count."""
    # Read the file before the listing: if another training goes back in between, the listing then
    # has only checkpoints that the file knew.
    state = listing.read_state(self.directory)
    try:
      names = storage.listdir(self.directory)
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
      return [], []
    steps = listing.steps(self.directory, names, state)
    if self._ignores_edits:
      return steps, []
    asked = going_back.asked_step(self.directory, state, steps)
    going_back.log_edit(self.directory, state, steps, asked)
    return steps, [] if asked is None else [step for step in steps if step > asked]

  def path(self, step: int) -> str:
    """Returns the path of a step's checkpoint, for arguments named checkpoint_path."""
    return listing.path(self.directory, step)

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
      problem = self._inspector.problem(path, leases.lease)
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
    state = listing.read_state(self.directory)
    if self._ignores_edits and state is not None and not state.is_own:
      file = os.path.join(self.directory, file_names.STATE)
      self._inspector.warn(
        f"Something changed {file} during the training; the training writes the file anew.",
        "To go back to an earlier checkpoint, end the training, change the file, and restart the "
        "training.",
      )
    self._removal.remove_unneeded(step, state)

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
    if self._is_recovered or not storage.isdir(self.directory):
      return
    commit.recover(self.directory)
    self._removal.left = file_names.steps(storage.listdir(self.directory))
    self._is_recovered = True

  def finish_cut_off_save(self) -> None:
    """Completes the work of a process that died after it wrote a checkpoint.

    The method names the checkpoint in `checkpoint`, and removes the checkpoints that no rule keeps.
    Only the process that writes checkpoints may call this.
    """
    state = listing.read_state(self.directory)
    steps = self.steps()
    if steps and state is not None and not state.may_go_back and state.listed_steps() != {*steps}:
      self._removal.remove_unneeded(steps[-1], state)

  def go_back(self) -> None:
    """Moves aside everything after the checkpoint that a person has named, see `going_back`.

    Only the process that writes checkpoints may call this.

    Raises:
      CheckpointNotFoundError: the named checkpoint does not exist.
      OutputError: a move failed.
    """
    self.wait()
    state = listing.read_state(self.directory)
    steps, later = self._steps()
    if state is None or not steps:
      return
    if later or state.aside:
      kept = [step for step in steps if step not in later]
      going_back.set_aside(
        self.directory, state, kept, later, self._movers, self._removal.write_state
      )
      self._removal.left = kept
    elif not state.is_own:
      # Otherwise a process that dies between the next checkpoint and this file would leave a file
      # that looks like a person's edit.
      self._removal.write_state(steps)

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
