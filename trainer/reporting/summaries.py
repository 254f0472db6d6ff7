"""Collects the scalars that a model_fn gives to `tf.summary`, and writes TensorBoard files.

Many steps run in one call on the device, and a device cannot write files. So `tf.summary.scalar`
inside a model_fn only records its value as an output of the step, and the host writes it with the
number of its step. Octet does not write images, histograms and texts from inside a model_fn, and
warns; a host_call can write them.
"""

import collections
import contextlib
import contextvars
import dataclasses
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorboard.compat
import tensorflow as tf
from absl import logging
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.scalar import summary as scalar_summary

from trainer import errors
from trainer.cli import notices
from trainer.internals import patches, tensorflow_internals
from trainer.io import files, storage
from trainer.tracing import graph_collections

v1 = tf.compat.v1

# Whether to record calls of tf.summary instead of writing them.
_is_intercepted = contextvars.ContextVar("summaries are intercepted", default=False)

# The list for new writers, or None.
_writers: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar(
  "kept writers", default=None
)

# Per thread, because a thread of its own traces each replica.
_collecting = threading.local()


@contextlib.contextmanager
def collect_scalars() -> Iterator[dict[str, tf.Tensor]]:
  """Yields a dict that receives the scalars recorded in this thread, tag → float32 scalar."""
  outer = getattr(_collecting, "scalars", None)
  scalars: dict[str, tf.Tensor] = {}
  _collecting.scalars = scalars
  try:
    yield scalars
  finally:
    _collecting.scalars = outer


def record(tag: str, value: Any) -> None:
  """Hands a scalar to the enclosing `collect_scalars`; drops it without one.

  Args:
    tag: its name in the log and in TensorBoard.
    value: a tensor or number with one element, of any dtype; it becomes a float32 scalar.
  """
  scalars = getattr(_collecting, "scalars", None)
  if scalars is not None:
    scalars[tag] = tf.cast(tf.reshape(value, []), tf.float32)


def recorded() -> dict[str, tf.Tensor]:
  """Returns the enclosing `collect_scalars`'s dict; a caller may take entries out of it."""
  return getattr(_collecting, "scalars", None) or {}


def intercept_scalars() -> contextlib.AbstractContextManager[None]:
  """Makes `tf.summary.scalar` and `tf.compat.v1.summary.scalar` record inside a `with` block.

  The caller enters the block once around a trace, for all replicas.
  """
  return patches.set_context(_is_intercepted, True)


def _write(original, tag, tensor, step=None, metadata=None, name=None):
  if not _is_intercepted.get():
    return original(tag, tensor, step=step, metadata=metadata, name=name)
  if metadata is not None and metadata.plugin_data.plugin_name == "scalars":
    record(
      graph_collections.OUTER_SCOPES.sub("", tag, count=1), tensor() if callable(tensor) else tensor
    )
    return tf.constant(True)
  written = original(tag, tensor, step=step, metadata=metadata, name=name)
  # A static value (it is False) means that there is no default writer. Otherwise the model_fn has
  # opened a writer of its own, and that writes the summary.
  if tf.get_static_value(written) is not None:
    _tell(tag)
  return written


patches.replaces(tf.summary, "write")(_write)
# tf.summary.scalar comes from tensorboard, and calls `write` through a module of tensorboard.
patches.replaces(tensorboard.compat.tf2.summary, "write")(_write)


@patches.replaces(v1.summary, "scalar")
def _v1_scalar(original, name, tensor, collections=None, family=None):
  if not _is_intercepted.get():
    return original(name, tensor, collections, family)
  record(f"{family}/{name}" if family else name, tensor)
  # A serialised summary without values, since a program may merge it and hand it to a host_call.
  return tf.constant(b"")


def _v1_other(original, name, *args, **kwargs):
  if _is_intercepted.get():
    _tell(name)
  return original(name, *args, **kwargs)


for _name in ("audio", "histogram", "image", "tensor_summary", "text"):
  patches.replaces(v1.summary, _name)(_v1_other)


def keep_writers(writers: list) -> contextlib.AbstractContextManager[None]:
  """Adds the writers that `tf.summary.create_file_writer` makes inside a `with` block to a list.

  Without a reference in Python, a writer from a trace would disappear before the function runs.
  """
  return patches.set_context(_writers, writers)


def _create_file_writer(original, *args, **kwargs):
  writer = original(*args, **kwargs)
  if _writers.get() is not None:
    _writers.get().append(writer)
  return writer


patches.replaces(tf.summary, "create_file_writer")(_create_file_writer)
patches.replaces(tf.compat.v2.summary, "create_file_writer")(_create_file_writer)


def _tell(tag):
  tag = graph_collections.OUTER_SCOPES.sub("", tag, count=1)
  if getattr(_collecting, "scalars", None) is not None:
    notices.warn_once(
      f"Octet does not write the summary {tag!r}: inside a model_fn it writes only scalars. A "
      "host_call writes images, histograms and texts, see docs/follow_a_run.md."
    )


# The files that this process writes, by folder, the last used at the end. TensorBoard reads the
# files of a folder in the order of their names, and keeps each file open.
_open: collections.OrderedDict[str, "_File"] = collections.OrderedDict()
_MOST_OPEN = 16
_FLUSH_ONLY = 2**31 - 1  # TensorFlow flushes by itself after so many events or milliseconds: never.
_BEGUN = re.compile(r"events\.out\.tfevents\.(\d+)\.")  # The second of the file's beginning.
_CLOCKS_DIFFER_SECONDS = 60.0  # At most, between machines that write in one folder.
_open_lock = threading.RLock()

# model_dir → the first step of this process's newest training there.
_started: dict[str, int] = {}


class _File:
  """The one file that this process writes in a folder.

  Args:
    directory: the folder, made if needed.

  Raises:
    OpError: TensorFlow cannot write the file.
  """

  def __init__(self, directory: str) -> None:
    self._process = os.getpid()
    self._suffix = f".{uuid.uuid4().hex[:8]}.v2"
    self._directory = directory
    _wait_for_a_new_second(directory)
    # Events wait for `flush`, because `flush` can run again after an error of the storage.
    self.writer = storage.retry(
      "write TensorBoard files to",
      directory,
      lambda: tf.summary.create_file_writer(
        directory, _FLUSH_ONLY, _FLUSH_ONLY, filename_suffix=self._suffix
      ),
    )
    self._path: str | None = None  # As soon as a listing has shown it.

  def is_there(self) -> bool:
    """Whether this process made the file and nobody has removed it."""
    if self._process != os.getpid():
      return False
    if self._path is not None:
      return storage.exists(self._path)
    found = files.matching(self._directory, f"events.*{self._suffix}")
    self._path = found[0] if found else None
    return bool(found)

  def flush(self) -> None:
    """Writes all events to the file."""
    storage.retry("write TensorBoard files to", self._directory, self.writer.flush)

  def write(self, event: event_pb2.Event) -> None:
    """Adds an event for the next `flush`."""
    tensorflow_internals.write_event(self.writer, event)

  def begin(self, step: int) -> None:
    """Writes that a training begins at a step: TensorBoard drops later events in the folder."""
    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    event = event_pb2.Event(wall_time=time.time(), step=step + 1, session_log=start)
    self.write(event)
    self.flush()


def _wait_for_a_new_second(directory):
  """Waits until the clock's second differs from the one in another file's name in a folder.

  TensorBoard reads files in the order of their names, with the second and then a number: 10 comes
  before 9, so the first file would look like a restart. TensorFlow names the files by the clock, so
  after the clock went back only a warning helps.
  """
  names = [os.path.basename(path) for path in files.matching(directory, "events.*")]
  begun = {int(match[1]) for match in map(_BEGUN.match, names) if match}
  ahead = max(begun, default=0) - time.time()
  if ahead > _CLOCKS_DIFFER_SECONDS:
    logging.warning(
      "TensorBoard will show %s in a wrong order: a file there has a time %.0f s ahead. Was the "
      "machine's clock set back? metrics.jsonl has the right order.",
      directory,
      ahead,
    )
  while int(time.time()) in begun:
    time.sleep(0.05)


def begin(model_dir: str, step: int) -> None:
  """Notes that a training of this process begins, or resumes from an earlier step.

  In the folder and its evaluations' folders, TensorBoard then drops an earlier training's events of
  later steps: this training repeats those steps.

  Args:
    model_dir: the folder of the run.
    step: the global step.
  """
  model_dir = model_dir.rstrip("/")
  with _open_lock:
    _started[model_dir] = step
    for directory, file in _open.items():
      if model_dir in (directory, os.path.dirname(directory)) and file.is_there():
        file.begin(step)


@dataclasses.dataclass
class Writer:
  """Writes TensorBoard files to a directory, made at the first write.

  All Writers of a process and a directory write to one file.

  Attributes:
    directory: local or on any file system that tf.io.gfile supports.

  Raises:
    OutputError: at the first write: it cannot write the directory.
  """

  directory: str
  _file: _File | None = dataclasses.field(default=None, init=False)

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """Writes scalars by tag, at a step."""
    # One event for all scalars: tf.summary.scalar takes ten times as long, and the devices wait
    # meanwhile.
    pairs = [scalar_summary.scalar_pb(tag, value) for tag, value in values.items()]
    summary = summary_pb2.Summary(value=[pair.value[0] for pair in pairs])
    file = self._opened()
    with self._translate_errors():
      file.write(event_pb2.Event(wall_time=time.time(), step=step, summary=summary))
      file.flush()

  def histograms(self, step: int, values: Mapping[str, np.ndarray]) -> None:
    """Writes histograms of arrays by tag, at a step."""
    with self._writing():
      for tag, value in values.items():
        tf.summary.histogram(tag, value, step=step)

  def text(self, step: int, tag: str, text: str) -> None:
    """Writes a text; TensorBoard shows its line breaks and spaces."""
    with self._writing():
      tf.summary.text(tag, "\n".join("    " + line for line in text.splitlines()), step=step)

  def drop_from(self, step: int) -> None:
    """Makes TensorBoard drop the directory's events of a step and of later ones."""
    file = self._opened()
    with self._translate_errors():
      # Twice: TensorBoard drops nothing at the very first beginning in a directory.
      file.begin(step - 1)
      file.begin(step - 1)

  def open(self) -> tf.summary.SummaryWriter:
    """Returns the writer of the directory's file; begins a file if this process has none."""
    return self._opened().writer

  def _opened(self):
    if self._file is None:
      with self._translate_errors():
        self._file = _file(self.directory)
    return self._file

  @contextlib.contextmanager
  def _writing(self):
    """Makes the writer tf.summary's, and writes all its events at the end."""
    file = self._opened()
    with self._translate_errors():
      is_written = False
      try:
        with file.writer.as_default():
          yield
          is_written = True
      except storage.TRANSIENT:
        # as_default flushes at its end, once; `flush` does so until it succeeds.
        if not is_written or not storage.is_remote(self.directory):
          raise
      file.flush()

  @contextlib.contextmanager
  def _translate_errors(self):
    try:
      yield
    except (OSError, tf.errors.OpError) as error:
      raise errors.OutputError(
        f"Cannot write TensorBoard files to {self.directory} (--model_dir): {files.reason(error)}."
      ) from error


def _file(directory):
  """The open file of a folder, or a new one."""
  directory = directory.rstrip("/")
  with _open_lock:
    file = _open.pop(directory, None)
    if file is None or not file.is_there():
      file = _File(directory)
      start = _started.get(directory, _started.get(os.path.dirname(directory)))
      if start is not None:
        file.begin(start)
    _open[directory] = file
    if len(_open) > _MOST_OPEN:
      _open.popitem(last=False)[1].writer.close()
  return file
