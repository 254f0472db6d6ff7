"""Writes checkpoints: every variable under its name, in TensorFlow's own format.

A checkpoint is either complete or not there. Layout of a model_dir:

    model.ckpt-1200.index                   names, shapes, dtypes and checksums; the checkpoint
                                            exists as soon as this file does
    model.ckpt-1200.data-00000-of-00001     the values; variables are float32 in any precision
    checkpoint                              the newest complete one, for
                                            tf.train.latest_checkpoint; paths are relative, so the
                                            folder can be moved. Whoever edits it goes back to an
                                            earlier one, see `going_back`
    .writing-*                              left by a process that was killed while writing; the
                                            next process completes or removes it

A key is a variable's name (`conv2d_1/kernel`). It says nothing about devices or replicas, so one
core can read what eight cores wrote. `tf.train.load_checkpoint` and `tf.compat.v1.train.Saver` can
read these files. The keys `examples_seen` and `input_ended` are the position in
the training data, see `trainer.checkpoints.data_position`.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import file_names, going_back, leases, reader, retention, state_file
from trainer.io import files, storage

PREFIX = file_names.PREFIX
_WRITING = ".writing-"

# A save looks whether so many of the newest checkpoints have changed since this process has written
# or read them: a training goes on from these. The time does not grow with the number of others.
_LOOKED_AT = 10

# How many checkpoints are removed at a time: on a bucket, each takes a tenth of a second.
_REMOVERS = 16


class CheckpointDirectory:
  """The checkpoints of one model_dir. The constructor neither reads nor writes.

  Args:
    directory: the folder, on any file system that tf.io.gfile can open.
    keep: which checkpoints to keep; default: the five newest.
    on_failure: what to do if a checkpoint cannot be written: "raise" an OutputError, or "warn" and
      train on until the next save. The last save of a training raises in any case, see `wait`.
    clock: returns the time in seconds, as time.monotonic does.
    movers: they move the records of later steps when a training goes back, see `going_back`.
    read_scores: function of the names of the folder's files that returns step → value of the metric
      by which Retention.best chooses; without it no checkpoint is known to be among the best.

  Attributes:
    directory: the folder.
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
    self._keep = keep or retention.Retention()
    self._on_failure = on_failure
    self._clock = clock
    self._movers = movers
    self._read_scores = read_scores
    self._is_written_here = False  # see `written_here`
    self._writer = concurrent.futures.ThreadPoolExecutor(1, "checkpoint")
    # (step, future, id of the thread that called save) of the save in progress.
    self._pending: tuple[int, concurrent.futures.Future, int] | None = None
    # Why the newest save failed, if that was only a warning.
    self._failure: errors.OctetError | None = None
    self._swept = False
    self._left: list[int] = []  # the steps of the checkpoints, as of the last listing of a save
    # path → (stamps of its files, what is wrong with it or None). A checkpoint that this process
    # has written or read need not be read again while its files stay the same.
    self._known: dict[str, tuple] = {}
    self._warned: set[str] = set()  # the problems that were logged

  def steps(self) -> list[int]:
    """Lists the steps of the checkpoints, oldest first.

    Those after the one that a person has named in the file `checkpoint` count as not there.

    Raises:
      CheckpointNotFoundError: that one is not there.
    """
    steps, passed_over = self._steps()
    return [step for step in steps if step not in passed_over]

  def passed_over(self) -> list[int]:
    """Lists the steps of the checkpoints that `steps` leaves out."""
    return self._steps()[1]

  def _steps(self):
    """Returns the steps of all checkpoints, and those of the ones that count as not there."""
    # The order is important: if a training beside goes back in between, the listing has nothing
    # that its file `checkpoint` would not have told.
    state = going_back.read(self.directory)
    try:
      names = storage.listdir(self.directory)
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
      return [], []
    steps = self._steps_among(names, state)
    if self._is_written_here:
      return steps, []
    asked = going_back.asked_step(self.directory, state, steps)
    going_back.tell(self.directory, state, steps, asked)
    return steps, [] if asked is None else [step for step in steps if step > asked]

  def go_back(self) -> None:
    """Moves aside what comes after the checkpoint that a person has named, see `going_back`.

    Only the process that writes checkpoints may call this.

    Raises:
      CheckpointNotFoundError: the named checkpoint is not there.
      OutputError: something cannot be moved.
    """
    self.wait()
    state = going_back.read(self.directory)
    steps, later = self._steps()
    if state is None or not steps:
      return
    if later or state.aside:
      kept = [step for step in steps if step not in later]
      going_back.set_aside(self.directory, state, kept, later, self._movers, self._write_state)
      self._left = kept
    elif not state.is_own:
      # Else a process that is killed between the next checkpoint and this file would leave one that
      # looks as if a person had gone back.
      self._write_state(steps)

  @contextlib.contextmanager
  def written_here(self) -> Iterator[None]:
    """While the context is open, this process's training writes the checkpoints.

    It goes on whatever a person writes to the file `checkpoint` meanwhile.
    """
    self._is_written_here = True
    try:
      yield
    finally:
      self._is_written_here = False

  def _steps_among(self, names, state):
    listed = file_names.steps(names)
    if not storage.is_remote(self.directory):
      return listed
    # A listing may be behind, and so may the state be, after a process that was killed.
    doubtful = set(listed) ^ (state.listed_steps() if state else set())
    gone = {step for step in doubtful if not storage.exists(f"{self.path(step)}.index")}
    return sorted({*listed, *doubtful} - gone)

  def path(self, step: int) -> str:
    """Returns the path of a step's checkpoint, for arguments named checkpoint_path."""
    return os.path.join(self.directory, f"{PREFIX}-{step}")

  def latest(self) -> str | None:
    """Returns the path of the newest checkpoint, damaged or not. Waits for a save in progress."""
    self.wait()
    steps = self.steps()
    return self.path(steps[-1]) if steps else None

  def save(self, step: int, values: Mapping[str, tf.Tensor]) -> str:
    """Writes a checkpoint in the background, then removes those that need not be kept.

    Args:
      step: the global step.
      values: name → tensor.

    Returns:
      The path that the checkpoint will have.

    Raises:
      OutputError: the previous checkpoint could not be written. Earlier ones are unchanged.
    """
    self._settle()
    # Training may go on while the thread writes. The tensors keep their values: TensorFlow copies a
    # variable's memory before it changes memory that a tensor shares.
    future = self._writer.submit(self._write, step, dict(values))
    self._pending = step, future, threading.get_ident()
    return self.path(step)

  @property
  def has_failed(self) -> bool:
    """Whether the newest save failed, and that was only a warning."""
    return self._failure is not None

  def wait(self, is_last: bool = False) -> None:
    """Waits until no save is in progress.

    Only the thread that called `save` gets its error, since that thread must not go on. Other
    threads only wait.

    Args:
      is_last: whether no save follows that would make up for this one.

    Raises:
      OutputError: the newest checkpoint could not be written, and it is the last, or on_failure is
        "raise".
    """
    pending = self._pending
    if pending is not None and pending[-1] != threading.get_ident():
      concurrent.futures.wait([pending[1]])
      return
    self._settle()
    if is_last and self._failure is not None:
      failure, self._failure = self._failure, None
      raise type(failure)(
        f"{errors.first_line(failure)}. It is the last one of the training, and "
        f"{self._what_is_saved()}."
      ) from failure

  def _settle(self):
    """Waits for the save in progress, and raises its error in any thread."""
    if self._pending is None:
      return
    (step, future, _), self._pending = self._pending, None
    self._failure = None
    failure: errors.OctetError
    try:
      future.result()
      return
    except errors.StorageError as error:
      failure = error
    except (tf.errors.OpError, OSError) as error:
      failure = errors.OutputError(
        f"The checkpoint of step {step} cannot be written to {self.directory} (--model_dir): "
        f"{errors.first_line(error)}"
      )
      failure.__cause__ = error
    if self._on_failure == "raise":
      raise failure
    self._failure = failure
    logging.warning(
      "%s. %s. The next checkpoint is the next try.",
      errors.first_line(failure),
      self._what_is_saved().capitalize(),
    )

  def _what_is_saved(self):
    steps = self.steps()
    return f"step {steps[-1]} is saved" if steps else "nothing is saved yet"

  def wait_and_warn(self) -> None:
    """Waits until no save is in progress; logs its error.

    For a training that ends with another error, which must not be hidden.
    """
    try:
      self.wait()
    except (errors.OutputError, errors.StorageError) as error:
      logging.warning("%s", error)

  def _write(self, step, values):
    path = self.path(step)
    aside = os.path.join(self.directory, f"{_WRITING}{PREFIX}-{step}")
    self.clean()
    storage.makedirs(aside)
    written = os.path.join(aside, f"{PREFIX}-{step}")

    def save():
      with tf.device("/cpu:0"):
        tf.raw_ops.SaveV2(
          prefix=written,
          tensor_names=list(values),
          shape_and_slices=[""] * len(values),
          tensors=list(values.values()),
        )

    storage.retry("write the checkpoint", path, save)
    # The order is important: old checkpoints go only after the new one is complete.
    _put_in_place(written, path)
    storage.rmtree(aside)
    self.mark_whole(path)
    self._forget(step)

  def clean(self) -> None:
    """Cleans up after a process that was killed while writing, on the first call.

    A checkpoint that was written completely moves to its place; other leftovers are removed. Only
    the process that writes checkpoints may call this.
    """
    if self._swept or not storage.isdir(self.directory):
      return
    for name in [
      name.rstrip("/") for name in storage.listdir(self.directory) if name.startswith(_WRITING)
    ]:
      aside, own = os.path.join(self.directory, name), name.removeprefix(_WRITING)
      if _is_complete(os.path.join(aside, own), os.path.join(self.directory, own)):
        _put_in_place(os.path.join(aside, own), os.path.join(self.directory, own))
      storage.rmtree(aside)
    files.remove_litter(self.directory)
    self._left = file_names.steps(storage.listdir(self.directory))
    self._swept = True

  def finish_cut_off_save(self) -> None:
    """Does what a process that was killed after it wrote a checkpoint had left to do.

    It names the checkpoint in `checkpoint`, and removes those that need not be kept. Only the
    process that writes checkpoints may call this.
    """
    state = going_back.read(self.directory)
    steps = self.steps()
    if steps and state is not None and not state.may_go_back and state.listed_steps() != {*steps}:
      self._forget(steps[-1])

  def _forget(self, step):
    """Removes the checkpoints that need not be kept, and names the others in `checkpoint`."""
    state = going_back.read(self.directory)
    if self._is_written_here and state is not None and not state.is_own:
      text = os.path.join(self.directory, file_names.STATE)
      self._warn_once(
        f"{text} was changed while the training goes on, and is written anew. To go back to an "
        "earlier checkpoint, end the training, change the file, and start it again.",
        text,
      )
    # The order is important. A checkpoint that goes is no longer in the file `checkpoint` before
    # leases are looked for, see `leases.held`; and TensorFlow finds no checkpoint at all where this
    # file names one that is gone.
    before = sorted({*self._left, step})
    going = self._keep.to_remove({each: self._written_at(each) for each in before}, {})
    named = self._write_state(sorted(set(before) - set(going) | {step}))
    # All that follows knows from this listing what is there: a bucket takes a second for each 1,000
    # names.
    names = storage.listdir(self.directory)
    steps = self._steps_among(names, state)
    removable = set(self._removable(steps, names)) & set(going)
    held = retention.held(self.directory, names, self._clock)
    removable = sorted(each for each in removable if f"{PREFIX}-{each}" not in held)
    left = sorted(set(steps) - set(removable))
    if self._names_of(left) != named:
      self._write_state(left)
    data_files = collections.defaultdict(list)
    for name in names:
      data_files[name.partition(".data-")[0]].append(os.path.join(self.directory, name))
    with concurrent.futures.ThreadPoolExecutor(_REMOVERS) as removers:
      of_each = [data_files[f"{PREFIX}-{step}"] for step in removable]
      is_removed = list(removers.map(self._remove, map(self.path, removable), of_each))
    stay = [each for each, is_gone in zip(removable, is_removed, strict=True) if not is_gone]
    self._left = sorted([*left, *stay])

  def _removable(self, steps, names):
    """Returns the steps of the checkpoints that need not be kept.

    The ones that stay are known to be undamaged: a damaged one does not count among them. It is
    removed itself when its turn comes.
    """
    counted = {step: self._written_at(step) for step in steps}
    metrics = self._read_scores(names) if self._keep.best else {}
    there = set(names)

    def problem_of(step):
      path = self.path(step)
      is_known = path in self._known and f"{PREFIX}-{step}{file_names.DATA}" in there
      return self._known[path][1] if is_known and step < looked_at else self._problem(path)

    looked_at = steps[-_LOOKED_AT:][0]
    # A damaged checkpoint among those that would stay leaves the count, and the choice is made
    # again without it: an older one stays in its place.
    while removable := self._keep.to_remove(counted, metrics):
      try:
        damaged = {
          step: problem for step in counted.keys() - set(removable) if (problem := problem_of(step))
        }
      except (errors.CheckpointError, errors.CheckpointNotFoundError, errors.StorageError) as error:
        logging.warning("%s No checkpoint is removed this time.", error)
        return []
      if not damaged:
        break
      for step, problem in damaged.items():
        del counted[step]
        self._warn_once(f"{problem} It does not count among those that are kept.", problem)
    return removable

  def _written_at(self, step):
    """Returns when a checkpoint was written, in seconds since the epoch; 0.0 where no rule asks."""
    if not self._keep.every_n_hours:
      return 0.0
    known, _ = self._known.get(self.path(step), (None, None))
    index, _ = known or _stamps(self.path(step))
    return index.mtime_nsec / 1e9 if index else 0.0

  def _remove(self, path, data_files):
    """Removes a checkpoint; returns whether that was possible."""
    try:
      remove(path, data_files)
    # Only a warning: the new checkpoint is complete, and the training can go on.
    except (tf.errors.OpError, errors.StorageError) as error:
      problem = f"The old checkpoint {path} cannot be removed: {files.reason(error)}."
      self._warn_once(f"{problem} It stays.", problem)
      return False
    self._known.pop(path, None)
    return True

  def _names_of(self, steps):
    """Returns the names of checkpoints, without those known to be damaged."""
    paths = [self.path(step) for step in steps]
    return [
      os.path.basename(path) for path in paths if self._known.get(path, (None, None))[1] is None
    ]

  def _write_state(self, steps, aside=""):
    """Writes the file `checkpoint`; returns the names of the checkpoints in it."""
    names = self._names_of(steps)
    with files.write_atomically(os.path.join(self.directory, file_names.STATE)) as file:
      file.write(state_file.compose(names, aside))
    return names

  def latest_whole(self) -> str | None:
    """Finds the newest checkpoint that can be read; logs a warning for each damaged one.

    Returns:
      Its path, or None if there are no checkpoints.

    Raises:
      CheckpointDamagedError: there are checkpoints, but none can be read.
    """
    self.wait()
    return leases.until_served(self._latest_whole)

  def _latest_whole(self):
    """Does what `latest_whole` does; raises GoneError if a checkpoint was removed meanwhile."""
    damaged: list[str] = []
    for step in reversed(self.steps()):
      path = self.path(step)
      problem = self._problem(path, leases.lease)
      if problem is None:
        for message in damaged:
          self._warn_once(f"{message} Using {path} instead.", message)
        return path
      damaged.append(problem)
    if damaged:
      raise errors.CheckpointDamagedError(
        " ".join(damaged) + f" No other is in {self.directory}: restore one from a backup, or "
        "start anew in another --model_dir."
      )
    return None

  def _problem(self, path, hold=contextlib.nullcontext):
    """Returns what is wrong with a checkpoint, or None.

    Reads the checkpoint, unless this process has written or read it and its files are unchanged.
    It is read in the context that `hold(path)` makes.

    Raises:
      CheckpointError: the checkpoint is out of reach now.
      GoneError: the checkpoint is not there any more, or was replaced while it was read.
    """
    stamps = _stamps(path)
    known, problem = self._known.get(path, (None, None))
    if known != stamps:
      try:
        with hold(path):
          reader.verify(path)
        problem = None
      except errors.CheckpointDamagedError as error:
        if _stamps(path) != stamps:
          raise reader.GoneError(
            f"The checkpoint {path} was replaced while it was read."
          ) from error
        problem = str(error)
      self._known[path] = stamps, problem
    return problem

  def mark_whole(self, path: str) -> None:
    """Notes that a checkpoint is complete: this process, or the chief, has just written it."""
    self._known[path] = _stamps(path), None

  def _warn_once(self, message, problem):
    if problem not in self._warned:
      self._warned.add(problem)
      logging.warning("%s", message)


@dataclasses.dataclass(frozen=True)
class _Stamp:
  """Tells a file from an earlier one at its path: time of writing (ns since the epoch), length."""

  mtime_nsec: int
  length: int


def _stamps(path):
  """Returns the _Stamps of a checkpoint's index and data; None for a missing file."""
  found = []
  for ending in (".index", file_names.DATA):
    try:
      stat = storage.stat(path + ending)
      found.append(_Stamp(stat.mtime_nsec, stat.length))
    except tf.errors.NotFoundError:
      found.append(None)
  return tuple(found)


def _put_in_place(written, path):
  """Moves a checkpoint that was written aside to its place; continues an interrupted move.

  The order is important. The old index is removed first: it does not fit the new data. The new
  index is moved last: the checkpoint exists as soon as its index does.
  """
  if storage.exists(path + ".index"):
    storage.remove(path + ".index")
  if storage.exists(written + file_names.DATA):
    storage.rename(written + file_names.DATA, path + file_names.DATA, overwrite=True)
  storage.rename(written + ".index", path + ".index", overwrite=True)


def _is_complete(written, path):
  """Whether a checkpoint that was written aside is complete; its move may have been interrupted."""
  if not storage.exists(written + ".index"):
    return False
  if not storage.exists(written + file_names.DATA):
    return storage.exists(path + file_names.DATA)
  try:
    reader.verify(written)
  except errors.CheckpointDamagedError:
    return False
  return True


def remove(path: str, data_files: Sequence[str]) -> None:
  """Removes a checkpoint. The index goes first: without it the rest is no checkpoint."""
  for name in [path + ".index", *data_files]:
    storage.remove(name)


def resolve(path: str) -> str:
  """Finds a checkpoint.

  Args:
    path: a checkpoint, or a folder, whose newest checkpoint is taken.

  Returns:
    The path of the checkpoint.

  Raises:
    CheckpointNotFoundError: there is none.
    CheckpointDamagedError: the folder has damaged checkpoints only.
  """
  if storage.exists(path + ".index"):
    return path
  newest = CheckpointDirectory(path).latest_whole() if storage.isdir(path) else None
  if newest is None:
    raise errors.CheckpointNotFoundError(
      f"There is no checkpoint at {path}: expected a path such "
      f"as {os.path.join(path, PREFIX)}-1000, or a folder."
    )
  return newest


def step_of(path: str) -> int:
  """Returns the step in the name of a run's checkpoint."""
  return int(path.rpartition("-")[2])
