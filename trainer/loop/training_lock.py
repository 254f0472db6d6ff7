"""Lets one training at a time use a model_dir. A second one gets an error that names the first.

    lock = TrainingLock("out/digits")
    with lock.hold():
      ...
      lock.check()          # before each save: does the folder still belong to this training?

Layout:

    <model_dir>/training.lock     {"host": "a", "pid": 4711, "started": "2026-11-21T19:30:00+00:00",
                                  "token": "5f0c1a...", ...}

The file names the running training, which removes the file at its end. If the file is gone or has
another token, the training has lost the folder and ends at its next save.

The training rewrites the file every BEAT_SECONDS, with a counter. The file of a killed process of
this machine does no harm: the next training sees that the process has ended. If the file of another
machine, or of another container, does not change for EXPIRES_SECONDS, its process counts as dead.
Octet never compares the clocks of two machines. If two trainings start in the same second, both may
begin; one of them ends at its first save.
"""

import contextlib
import dataclasses
import datetime
import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.cli import processes
from trainer.io import files, storage

NAME = "training.lock"

# Seconds between two writes of the file, and seconds without a write after which its training
# counts as dead. A restart on another machine waits at most that long.
BEAT_SECONDS = 15.0
EXPIRES_SECONDS = 90.0
_LOOK_SECONDS = 3.0  # from one look at another training's file to the next

# The tokens of the locks that this process holds.
_tokens: set[str] = set()


@dataclasses.dataclass
class TrainingLock:
  """The lock of one model_dir, for one Estimator.

  Attributes:
    model_dir: the folder, on any file system that tf.io.gfile can open.
    force: whether to take the folder from another training, which ends at its next save.
    is_needed: whether this process needs the lock. If not, all methods do nothing.
    clock: returns the time in seconds.
    sleep: sleeps for a number of seconds.
  """

  model_dir: str
  force: bool = False
  is_needed: bool = True
  clock: Callable[[], float] = time.monotonic
  sleep: Callable[[float], None] = time.sleep

  def __post_init__(self) -> None:
    # Guards the next two. Reentrant, because `hold` calls `take`.
    self._changes = threading.RLock()
    self._depth = 0  # number of open `with hold()`
    self._holder: _Holder | None = None  # this training, while it has the folder
    self._lost_to: str | None = None
    self._path = os.path.join(self.model_dir, NAME)

  @contextlib.contextmanager
  def hold(self) -> Iterator[None]:
    """Holds the folder while the context is open. Calls may nest.

    If the folder does not exist yet, the next call of `take` holds it.

    Raises:
      ModelDirBusyError: another training uses the folder.
      OutputError: it cannot write the lock's file.
    """
    with self._changes:
      if self.is_needed and storage.isdir(self.model_dir):
        self.take()
      self._depth += 1
    try:
      yield
    finally:
      with self._changes:
        self._depth -= 1
        # A fork must leave the lock and its thread to the parent.
        if not self._depth and self._holder is not None and self._holder.is_this_process():
          self._release()

  def take(self) -> bool:
    """Takes the folder, which must exist.

    Returns:
      True if this call took the lock; False if the training held it already or needs none.

    Raises:
      ModelDirBusyError: another training uses the folder.
      OutputError: it cannot write the lock's file.
    """
    if self._holder is not None or not self.is_needed:
      return False
    holder = _this()
    try:
      found = self._read()
      if found is not None and self.force:
        logging.warning(
          "--force: taking %s from %s. That training ends at its next save.",
          self.model_dir,
          _who(found),
        )
      elif found is not None:
        self._wait_for_end(found)
      self._write(holder, 1)
    except (OSError, tf.errors.OpError) as error:
      if isinstance(error, errors.OctetError):
        raise
      raise errors.OutputError(
        f"Cannot write {self._path} (--model_dir): {files.reason(error)}"
      ) from error
    _tokens.add(holder.token)
    self._holder, self._lost_to, self._ended = holder, None, threading.Event()
    self._thread = threading.Thread(target=self._beat, name="training lock", daemon=True)
    self._thread.start()
    return True

  def check(self) -> None:
    """Checks that the folder still belongs to this training. Call it before each save.

    Raises:
      ModelDirBusyError: another training took the folder, or somebody removed the lock's file.
    """
    if self._holder is None:
      return
    try:
      other = self._find_other()
    # Only a warning: if the folder is out of reach, the save will fail and say so.
    except (OSError, tf.errors.OpError, errors.StorageError) as error:
      self._warn("read", error)
      return
    if other:
      raise errors.ModelDirBusyError(
        f"Another training took {self.model_dir} (--model_dir) from this one: {other}. This "
        "training ends and leaves its newest checkpoint unchanged."
      )

  def _find_other(self):
    """Returns who took the folder or how this lock lost it; None if it still holds the folder."""
    if self._lost_to is None:
      text = self._read()
      holder = _holder(text)
      if holder is None or holder.token != self._holder.token:
        self._lost_to = f"its file {NAME} is missing" if text is None else _who(text)
    return self._lost_to

  def _wait_for_end(self, found):
    """Waits until the training of a found file has ended; ModelDirBusyError if it is alive."""
    holder = _holder(found)
    alive = holder.is_alive() if holder else None
    if alive:
      raise self._busy(found)
    if alive is not None:  # it ran on this machine, and has ended
      return
    logging.warning(
      "%s names a training: %s. If that training does not rewrite the file within %.0f s, it "
      "counts as dead, and this one starts. --force starts at once.",
      self._path,
      _who(found),
      EXPIRES_SECONDS,
    )
    end = self.clock() + EXPIRES_SECONDS
    while self.clock() < end:
      self.sleep(_LOOK_SECONDS)
      now = self._read()
      if now is None:
        return
      if now != found:
        raise self._busy(now)

  def _busy(self, text):
    return errors.ModelDirBusyError(
      f"Another training goes on in {self.model_dir} (--model_dir): {_who(text)}. Wait for its "
      "end, give another --model_dir, or take the folder from it with --force (RunConfig.force)."
    )

  def _beat(self):
    count = 1
    while not self._ended.wait(BEAT_SECONDS):
      count += 1
      try:
        if self._find_other():
          return
        self._write(self._holder, count)
      except (OSError, tf.errors.OpError, errors.StorageError) as error:
        self._warn("write", error)

  def _release(self):
    self._ended.set()
    self._thread.join()
    _tokens.discard(self._holder.token)
    try:
      if not self._find_other():
        storage.remove(self._path)
    # Only a warning: the block may be ending with an error, and this one must not hide it.
    except (OSError, tf.errors.OpError, errors.StorageError) as error:
      self._warn("remove", error)
    self._holder = None

  def _read(self):
    try:
      return storage.read(self._path, "rb").decode(errors="replace")
    except tf.errors.NotFoundError:
      return None

  def _write(self, holder, beat):
    with files.write_atomically(self._path) as file:
      file.write(json.dumps(dataclasses.asdict(holder) | {"beat": beat}, indent=1) + "\n")

  def _warn(self, verb, error):
    # A StorageError says itself what failed, and where.
    if isinstance(error, errors.StorageError):
      logging.warning("%s", error)
    else:
      logging.warning("Cannot %s %s: %s", verb, self._path, files.reason(error))


@dataclasses.dataclass(frozen=True)
class _Holder:
  """The training that a lock's file names."""

  host: str
  pid: int
  started: str
  boot: str | None = None  # see processes.boot_id
  process: str | None = None  # see processes.start_time
  token: str = ""  # unique for each lock

  def __str__(self):
    here = ", this process" if self.is_this_process() else ""
    return f"process {self.pid} on host {self.host}{here}, started {self.started}"

  def is_this_process(self):
    return self.boot == processes.boot_id() and self.pid == os.getpid()

  def is_alive(self):
    """Whether the training goes on; None if it is on another machine or out of sight."""
    # Systems use process numbers again. The boot and the start time of the process distinguish the
    # training from another process with the same number.
    if self.boot is None or self.boot != processes.boot_id() or self.process is None:
      return None
    if processes.start_time(self.pid) != self.process:
      return False
    # This process may have ended a training whose file it could not remove.
    return not self.is_this_process() or self.token in _tokens


def _this():
  started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
  pid = os.getpid()
  return _Holder(
    platform.node(), pid, started, processes.boot_id(), processes.start_time(pid), uuid.uuid4().hex
  )


def _holder(text):
  """Parses the text of a lock's file; None if the text is missing or incomplete."""
  try:
    told = json.loads(text or "")
    return _Holder(**{field.name: told[field.name] for field in dataclasses.fields(_Holder)})
  except (ValueError, TypeError, KeyError):
    return None


def _who(text):
  """Describes the training that the text of a lock's file names."""
  return str(_holder(text) or "a process without a name, or without one yet")
