"""Lets one training at a time use a model_dir. A second one gets an error that names the first.

    lock = TrainingLock("out/digits")
    with lock.hold():
      ...
      lock.check()          # before each save: does the folder still belong to this training?

Layout:

    <model_dir>/training.lock     {"host": "a", "pid": 4711, "started": "2026-11-21T19:30:00+00:00",
                                  ...}

The file names the running training, which removes the file at its end. If the file is gone or names
another training, the training has lost the folder and ends at its next save.

Local disks and NFS: flock(2) locks the file. The lock ends with the process, however it ends, so
the file of a killed process does no harm. NFS passes the lock on to its server, and other machines
see it.

File systems without locks (gs:// and others that only TensorFlow can open): the training rewrites
the file every BEAT_SECONDS, with a counter. If the file does not change for EXPIRES_SECONDS, its
process counts as dead. Octet never compares the clocks of two machines. If two trainings start in
the same second, both may begin; one of them ends at its first save.
"""

import contextlib
import dataclasses
import datetime
import errno
import fcntl
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

# On a file system without locks: seconds between two writes of the file, and seconds without a
# write after which its training counts as dead. A restart waits at most that long.
BEAT_SECONDS = 15.0
EXPIRES_SECONDS = 90.0
_LOOK_SECONDS = 3.0  # from one look at another training's file to the next

# The errors of flock on file systems that have no locks.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}

_REMOVED = f"its file {NAME} is missing"
_FORCED = "--force: taking %s from %s. That training ends at its next save."


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
    self._taken: _FileLock | _Heartbeat | None = None

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
        if not self._depth and self._taken is not None:
          self._release()

  def _release(self):
    taken, self._taken = self._taken, None
    try:
      taken.release()
    # Only a warning: the block may be ending with an error, and this one must not hide it.
    except (OSError, tf.errors.OpError, errors.StorageError) as error:
      _warn("remove", self._path, error)

  def take(self) -> bool:
    """Takes the folder, which must exist.

    Returns:
      True if this call took the lock; False if the training held it already or needs none.

    Raises:
      ModelDirBusyError: another training uses the folder.
      OutputError: it cannot write the lock's file.
    """
    if self._taken is not None or not self.is_needed:
      return False
    try:
      self._taken = self._take()
    except (OSError, tf.errors.OpError) as error:
      if isinstance(error, errors.OctetError):
        raise
      message = getattr(error, "message", error)
      raise errors.OutputError(f"Cannot write {self._path} (--model_dir): {message}") from error
    return True

  def check(self) -> None:
    """Checks that the folder still belongs to this training. Call it before each save.

    Raises:
      ModelDirBusyError: another training took the folder, or somebody removed the lock's file.
    """
    if self._taken is None:
      return
    try:
      other = self._taken.lost_to()
    # Only a warning: if the folder is out of reach, the save will fail and say so.
    except (OSError, tf.errors.OpError, errors.StorageError) as error:
      _warn("read", self._path, error)
      return
    if other:
      raise errors.ModelDirBusyError(
        f"Another training took {self.model_dir} (--model_dir) from this one: {other}. This "
        "training ends and leaves its newest checkpoint unchanged."
      )

  @property
  def _path(self):
    return os.path.join(self.model_dir, NAME)

  def _take(self):
    # A URL has no descriptor that flock could lock.
    if "://" not in self.model_dir:
      try:
        return _FileLock(self._path, self.force)
      except OSError as error:
        if error.errno not in _NO_LOCKS:
          raise
        logging.info("%s is on a file system without locks.", self.model_dir)
    return _Heartbeat(self._path, self.force, self.clock, self.sleep)


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
    """Whether the process runs; None if it is on another machine or out of sight."""
    # Systems use process numbers again. The boot and the start time of the process distinguish the
    # training from another process with the same number.
    if self.boot is None or self.boot != processes.boot_id() or self.process is None:
      return None
    return processes.start_time(self.pid) == self.process


def _this():
  started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
  pid = os.getpid()
  return _Holder(
    platform.node(), pid, started, processes.boot_id(), processes.start_time(pid), uuid.uuid4().hex
  )


def _holder(text):
  """Parses the text of a lock's file; None if the text is incomplete."""
  try:
    told = json.loads(text)
    return _Holder(**{field.name: told[field.name] for field in dataclasses.fields(_Holder)})
  except (ValueError, TypeError, KeyError):
    return None


def _text(holder, **more):
  return json.dumps(dict(dataclasses.asdict(holder), **more), indent=1) + "\n"


def _who(text):
  """Describes the training that the text of a lock's file names."""
  return str(_holder(text) or "a process without a name, or without one yet")


def _warn(verb, path, error):
  # A StorageError says itself what failed, and where.
  if isinstance(error, errors.StorageError):
    logging.warning("%s", error)
  else:
    logging.warning("Cannot %s %s: %s", verb, path, getattr(error, "message", error))


def _busy(path, text):
  return errors.ModelDirBusyError(
    f"Another training goes on in {os.path.dirname(path)} (--model_dir): {_who(text)}. Wait for "
    "its end, give another --model_dir, or take the folder from it with --force (RunConfig.force)."
  )


class _FileLock:
  """A lock by flock(2), which ends with the process."""

  def __init__(self, path, force):
    self._path = path
    self._pid = os.getpid()
    self._file = _lock_file(path)
    if self._file is None and force:
      logging.warning(_FORCED, os.path.dirname(path), _who(_read_local(path)))
      # The other training keeps its lock, but on a file that no longer has a name.
      with contextlib.suppress(FileNotFoundError):  # it has just ended
        os.remove(path)
      self._file = _lock_file(path)
    if self._file is None:
      raise _busy(path, _read_local(path))
    try:
      # Only with the lock held: until then, the file names the training that runs.
      os.ftruncate(self._file, 0)
      os.pwrite(self._file, _text(_this()).encode(), 0)
    except OSError:  # for instance, the disk is full
      self.release()
      raise

  def lost_to(self):
    """Returns who took the folder or how this lock lost it; None if it still holds the folder."""
    if _is_at(self._file, self._path):
      return None
    return _who(_read_local(self._path)) if os.path.exists(self._path) else _REMOVED

  def release(self):
    if os.getpid() != self._pid:  # a fork: the lock belongs to its parent
      return
    try:
      if _is_at(self._file, self._path):
        os.remove(self._path)
    finally:
      _open_files.discard(self._file)
      os.close(self._file)


# Descriptors of the locks that this process holds. A fork closes them: a lock by flock lasts until
# every process that inherited the descriptor has closed it, even after the parent's death.
_open_files: set[int] = set()


def _close_in_fork():
  for file in _open_files:
    os.close(file)
  _open_files.clear()


os.register_at_fork(after_in_child=_close_in_fork)


def _lock_file(path):
  """Opens and locks a file; returns its descriptor, or None if another lock has it."""
  while True:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      os.close(file)
      return None
    except OSError as error:
      if error.errno in _NO_LOCKS and not os.fstat(file).st_size:
        os.remove(path)  # this call created it, and it names no training
      os.close(file)
      raise
    if _is_at(file, path):
      _open_files.add(file)
      return file
    # Its holder has removed the file between `open` and `flock`. This lock is on a file without a
    # name, invisible to others: try again.
    os.close(file)


def _is_at(file, path):
  """Whether a descriptor belongs to the file that is at a path now."""
  try:
    return os.path.samestat(os.fstat(file), os.stat(path))
  except FileNotFoundError:
    return False


def _read_local(path):
  try:
    with open(path, encoding="utf-8", errors="replace") as file:
      return file.read()
  except OSError:
    return ""


# The tokens of this process's ended heartbeats whose file it could not remove.
_left_behind: set[str] = set()


class _Heartbeat:
  """A lock for file systems without locks: a file that the training rewrites again and again."""

  def __init__(self, path, force, clock, sleep):
    self._path = path
    self._holder = _this()
    self._pid = os.getpid()
    self._lost_to = None
    found = self._read()
    if found is not None and force:
      logging.warning(_FORCED, os.path.dirname(path), _who(found))
    elif found is not None:
      self._wait_for_its_end(found, clock, sleep)
    self._count = 0
    self._write()
    self._ended = threading.Event()
    self._thread = threading.Thread(target=self._beat, name="training lock", daemon=True)
    self._thread.start()

  def _wait_for_its_end(self, found, clock, sleep):
    """Waits until the training of a found file has ended; ModelDirBusyError if it is alive."""
    holder = _holder(found)
    alive = holder.is_alive() if holder else None
    if holder and holder.token in _left_behind:
      return
    if alive:
      raise _busy(self._path, found)
    if alive is not None:  # it ran on this machine, and has ended
      return
    logging.warning(
      "%s names a training: %s. If that training does not rewrite the file within %.0f s, it "
      "counts as dead, and this one starts. --force starts at once.",
      self._path,
      _who(found),
      EXPIRES_SECONDS,
    )
    end = clock() + EXPIRES_SECONDS
    while clock() < end:
      sleep(_LOOK_SECONDS)
      now = self._read()
      if now is None:
        return
      if now != found:
        raise _busy(self._path, now)

  def _beat(self):
    while not self._ended.wait(BEAT_SECONDS):
      try:
        # One try: the next beat is the next try. A late write could replace the file of a training
        # that has taken the folder meanwhile.
        if self.lost_to(storage.ONCE):
          return
        self._write(storage.ONCE)
      except (tf.errors.OpError, errors.StorageError) as error:
        _warn("write", self._path, error)

  def lost_to(self, retries=None):
    """Returns who took the folder or how this lock lost it; None if it still holds the folder."""
    if self._lost_to is None:
      text = self._read(retries)
      holder = _holder(text) if text is not None else None
      if holder is None or holder.token != self._holder.token:
        self._lost_to = _REMOVED if text is None else _who(text)
    return self._lost_to

  def release(self):
    if os.getpid() != self._pid:  # a fork: the lock and its thread belong to the parent
      return
    self._ended.set()
    self._thread.join()
    # Before removing the file: if that fails, the next training of this process finds its own token
    # in the file and need not wait for it to expire.
    _left_behind.add(self._holder.token)
    if self.lost_to():
      return
    with contextlib.suppress(tf.errors.NotFoundError):
      storage.remove(self._path)
    _left_behind.remove(self._holder.token)

  def _read(self, retries=None):
    try:
      return storage.read(self._path, retries=retries)
    except tf.errors.NotFoundError:
      return None

  def _write(self, retries=None):
    self._count += 1
    with files.write_atomically(self._path, retries=retries) as file:
      file.write(_text(self._holder, beat=self._count))
