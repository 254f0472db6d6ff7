"""Checkpoints: every variable under its name, in TensorFlow's own format, whole or not there.

Layout of a model_dir:

    model.ckpt-1200.index                   names, shapes, dtypes, checksums; its presence means
                                            that the checkpoint is whole
    model.ckpt-1200.data-00000-of-00001     the values, float32 variables as float32 whatever the
                                            precision of the run
    checkpoint                              the newest whole one, for tf.train.latest_checkpoint;
                                            paths are relative, so that the folder can move
    .writing-*                              what a process that was killed was writing; the next one
                                            that writes removes it, or puts it in its place

A key is a variable's name (`conv2d_1/kernel`): it tells nothing of devices or replicas, so that
what eight cores wrote opens on one. `tf.train.load_checkpoint` reads it, and so does
`tf.compat.v1.train.Saver`. `examples_seen` is the position in the training data.
"""

import concurrent.futures
import dataclasses
import os
import re
import threading
import time

import tensorflow as tf
from absl import logging

from trainer import errors, files
from trainer.checkpoints import reader, retention

PREFIX = "model.ckpt"
_INDEX = re.compile(re.escape(PREFIX) + r"-(\d+)\.index")
_DATA = ".data-00000-of-00001"
_WRITING = ".writing-"


class CheckpointDirectory:
  """The checkpoints of one model_dir. Nothing is read or written before a method is called.

  Args:
    directory: path, local or of any file system that tf.io.gfile knows.
    keep: a retention.Retention.
    on_failure: "raise" for an OutputError, or "warn" to go on without the checkpoint when one
      cannot be written, and try again at the next one.
    clock: seconds since the epoch.
  """

  def __init__(self, directory, keep=None, on_failure="raise", clock=time.time):
    self.directory = directory
    self._keep = keep or retention.Retention()
    self._on_failure = on_failure
    self._clock = clock
    self._writer = concurrent.futures.ThreadPoolExecutor(1, "checkpoint")
    self._pending = None  # (step, future, thread that asked for it) of the save that is under way
    self._swept = False
    # By path: (its files' stamps, what is wrong with it or None). What this process has written or
    # read need not be read again.
    self._known = {}
    self._warned = set()  # of what was wrong with checkpoints

  def steps(self):
    """Steps of the checkpoints that are there, oldest first."""
    try:
      names = tf.io.gfile.listdir(self.directory)
    except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError):
      return []
    return sorted(int(match[1]) for match in map(_INDEX.fullmatch, names) if match)

  def path(self, step):
    """The path of the checkpoint of a step, as `checkpoint_path` arguments take it."""
    return os.path.join(self.directory, f"{PREFIX}-{step}")

  def latest(self):
    """The path of the newest checkpoint, damaged or not, or None; waits for one that is being
    written.
    """
    self.wait()
    steps = self.steps()
    return self.path(steps[-1]) if steps else None

  def save(self, step, values):
    """Writes values in the background, and then forgets the checkpoints that need not be kept.

    Args:
      step: int, the global step.
      values: dict of name → tensor.

    Returns:
      The path that the checkpoint will have.

    Raises:
      OutputError: the one before cannot be written, or its folder cannot; what was there is as it
        was.
    """
    self._settle()
    # A tensor that was read from a variable keeps its value: TensorFlow copies a variable's memory
    # before it changes what others hold.
    future = self._writer.submit(self._write, step, dict(values))
    self._pending = step, future, threading.get_ident()
    return self.path(step)

  def wait(self):
    """Returns when nothing is being written; raises OutputError if it could not be, unless
    on_failure is "warn".

    That is for the thread that saves to hear, which must not go on; others only wait.
    """
    pending = self._pending
    if pending is None:
      return
    _, future, thread = pending
    if thread == threading.get_ident():
      self._settle()
    else:
      concurrent.futures.wait([future])

  def _settle(self):
    """As `wait`, for whichever thread."""
    if self._pending is None:
      return
    (step, future, _), self._pending = self._pending, None
    try:
      future.result()
    except (tf.errors.OpError, OSError) as error:
      message = (
        f"The checkpoint of step {step} cannot be written to {self.directory} (--model_dir): "
        f"{reader.first_line(error)}"
      )
      if self._on_failure == "raise":
        raise errors.OutputError(message) from error
      logging.warning("%s. The training goes on; the next checkpoint is the next try.", message)

  def wait_and_warn(self):
    """Returns when nothing is being written.

    What cannot be is told in a warning: the training has ended for another reason.
    """
    try:
      self.wait()
    except errors.OutputError as error:
      logging.warning("%s", error)

  def _write(self, step, values):
    path = self.path(step)
    aside = os.path.join(self.directory, f"{_WRITING}{PREFIX}-{step}")
    self.clean()
    tf.io.gfile.makedirs(aside)
    written = os.path.join(aside, f"{PREFIX}-{step}")
    with tf.device("/cpu:0"):
      tf.raw_ops.SaveV2(
        prefix=written,
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=list(values.values()),
      )
    _put_in_place(written, path)
    tf.io.gfile.rmtree(aside)
    self.mark_whole(path)
    self._forget()
    self._write_state()

  def clean(self):
    """Removes what a process that was killed has left; a checkpoint that it had written to its end
    is put in its place. For the one process that writes; done once.
    """
    if self._swept or not tf.io.gfile.isdir(self.directory):
      return
    for name in [
      name.rstrip("/") for name in tf.io.gfile.listdir(self.directory) if name.startswith(_WRITING)
    ]:
      aside, own = os.path.join(self.directory, name), name.removeprefix(_WRITING)
      if _is_complete(os.path.join(aside, own), os.path.join(self.directory, own)):
        _put_in_place(os.path.join(aside, own), os.path.join(self.directory, own))
      tf.io.gfile.rmtree(aside)
    self._swept = True

  def _forget(self):
    """Removes the checkpoints that need not be kept.

    A damaged one does not count: before another goes, those that stay are known to be whole. It
    stays itself until it would have to go if it were whole.
    """
    stamps = {step: _stamps(self.path(step)) for step in self.steps()}
    counted = {step: index.mtime_nsec / 1e9 for step, (index, _) in stamps.items() if index}
    metrics = (
      retention.read_metrics(self.directory, self._keep.evaluation, self._keep.metric)
      if self._keep.best
      else {}
    )
    while removable := self._keep.to_remove(counted, metrics):
      try:
        damaged = {
          step: problem
          for step in counted.keys() - set(removable)
          if (problem := self._problem(self.path(step)))
        }
      except errors.CheckpointError as error:
        logging.warning("%s No checkpoint is removed this time.", error)
        return
      if not damaged:
        break
      for step, problem in damaged.items():
        del counted[step]
        self._warn_once(f"{problem} It does not count among those that are kept.", problem)
    for step in removable:
      if not retention.is_held(self.path(step), self._clock):
        remove(self.path(step))
        self._known.pop(self.path(step), None)

  def _write_state(self):
    paths = [self.path(step) for step in self.steps()]
    # But those known to be damaged.
    names = [
      os.path.basename(path) for path in paths if self._known.get(path, (None, None))[1] is None
    ]
    lines = [
      f'model_checkpoint_path: "{names[-1]}"',
      *(f'all_model_checkpoint_paths: "{name}"' for name in names),
    ]
    with files.write_atomically(os.path.join(self.directory, "checkpoint")) as file:
      file.write("\n".join(lines) + "\n")

  def latest_whole(self):
    """The path of the newest checkpoint that can be read, or None if there is none at all.

    Each damaged one is named in a warning.

    Raises:
      CheckpointDamagedError: there are checkpoints, and none of them can be read.
    """
    self.wait()
    damaged = []
    for step in reversed(self.steps()):
      path = self.path(step)
      problem = self._problem(path)
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

  def _problem(self, path):
    """What is wrong with a checkpoint, None if it is whole.

    It is read unless this process has written or read it, and its files are as they were.

    Raises:
      CheckpointError: it cannot be told now.
    """
    stamps = _stamps(path)
    known, problem = self._known.get(path, (None, None))
    if known != stamps:
      try:
        reader.verify(path)
        problem = None
      except errors.CheckpointDamagedError as error:
        problem = str(error)
      self._known[path] = stamps, problem
    return problem

  def mark_whole(self, path):
    """Takes a checkpoint for whole as it is now: this process, or the chief of its workers, has
    just written it.
    """
    self._known[path] = _stamps(path), None

  def _warn_once(self, message, problem):
    if problem not in self._warned:
      self._warned.add(problem)
      logging.warning("%s", message)


@dataclasses.dataclass(frozen=True)
class _Stamp:
  """What tells a file from the one that was there before: when it was written (nanoseconds
  since the epoch), and its length.
  """

  mtime_nsec: int
  length: int


def _stamps(path):
  """The _Stamps of a checkpoint's index and data; None for a file that is not there."""
  found = []
  for ending in (".index", _DATA):
    try:
      stat = tf.io.gfile.stat(path + ending)
      found.append(_Stamp(stat.mtime_nsec, stat.length))
    except tf.errors.NotFoundError:
      found.append(None)
  return tuple(found)


def _put_in_place(written, path):
  """Moves a checkpoint that was written aside, or what is still there of it.

  The order is important. The index of what is replaced goes first: it does not fit the new data.
  The new index comes last: with it the checkpoint is there.
  """
  if tf.io.gfile.exists(path + ".index"):
    tf.io.gfile.remove(path + ".index")
  if tf.io.gfile.exists(written + _DATA):
    tf.io.gfile.rename(written + _DATA, path + _DATA, overwrite=True)
  tf.io.gfile.rename(written + ".index", path + ".index", overwrite=True)


def _is_complete(written, path):
  """Whether a checkpoint was written aside to its end, and at most the moving of it was cut
  short.
  """
  if not tf.io.gfile.exists(written + ".index"):
    return False
  if not tf.io.gfile.exists(written + _DATA):
    return tf.io.gfile.exists(path + _DATA)
  try:
    reader.verify(written)
  except errors.CheckpointDamagedError:
    return False
  return True


def remove(path):
  """Removes a checkpoint, its index first, so that what is left of it if this is cut short is
  no checkpoint.
  """
  for name in [path + ".index", *tf.io.gfile.glob(path + ".data-*")]:
    tf.io.gfile.remove(name)


def resolve(path):
  """The path of a checkpoint from that or from a directory, whose newest is meant.

  Raises:
    CheckpointNotFoundError: there is none.
  """
  if tf.io.gfile.exists(path + ".index"):
    return path
  newest = CheckpointDirectory(path).latest_whole() if tf.io.gfile.isdir(path) else None
  if newest is None:
    raise errors.CheckpointNotFoundError(
      f"There is no checkpoint at {path}: expected a path such "
      f"as {os.path.join(path, PREFIX)}-1000, or a folder."
    )
  return newest


def step_of(path):
  """The step in the name of a run's own checkpoint."""
  return int(path.rpartition("-")[2])
