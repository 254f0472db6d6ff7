"""Scalars that a model_fn gives to `tf.summary`, and the TensorBoard files that the host writes.

A step runs on the device, many times in one call, where no file can be written. So
`tf.summary.scalar` inside a model_fn only leaves its value behind; the host writes it, with the
number of the step that it belongs to. Images, histograms and texts are not written from there,
which a warning says; a host_call can write them.
"""

import contextlib
import contextvars
import re
import threading

import tensorboard.compat
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.internals import patches

v1 = tf.compat.v1

# The scopes around a model_fn's own, which tell of loops and replicas: see
# variables.VariableStore.run.
_OUTER_SCOPES = re.compile(r"^.*?\bmodel_fn(_\d+)?/")

# Whether what is given to tf.summary is left behind instead of written.
_is_intercepted = contextvars.ContextVar("summaries are intercepted", default=False)

# A list that is given the writers which are made, or None.
_writers = contextvars.ContextVar("kept writers", default=None)

_collecting = threading.local()
_told = set()  # tags of what is not written, each of which is told once a process


@contextlib.contextmanager
def collect_scalars():
  """Yields a dict that receives, by tag, each scalar (float32 tensor) that is given to
  tf.summary inside. Per thread: one per replica.
  """
  outer = getattr(_collecting, "scalars", None)
  _collecting.scalars = scalars = {}
  try:
    yield scalars
  finally:
    _collecting.scalars = outer


def record(tag, value):
  """Hands a scalar to the enclosing `collect_scalars`; without one, the scalar is dropped.

  Args:
    tag: its name in the log and in TensorBoard.
    value: a tensor or number with one element, of any dtype; it is kept as a float32 scalar.
  """
  scalars = getattr(_collecting, "scalars", None)
  if scalars is not None:
    scalars[tag] = tf.cast(tf.reshape(value, []), tf.float32)


def intercept_scalars() -> contextlib.AbstractContextManager[None]:
  """`tf.summary.scalar` and `tf.compat.v1.summary.scalar` record inside; entered once around a
  trace.
  """
  return patches.set_context(_is_intercepted, True)


def _write(original, tag, tensor, step=None, metadata=None, name=None):
  if not _is_intercepted.get():
    return original(tag, tensor, step=step, metadata=metadata, name=name)
  if metadata is not None and metadata.plugin_data.plugin_name == "scalars":
    record(_OUTER_SCOPES.sub("", tag, count=1), tensor() if callable(tensor) else tensor)
    return tf.constant(True)
  written = original(tag, tensor, step=step, metadata=metadata, name=name)
  # False: the model_fn has no writer of its own around it.
  if tf.get_static_value(written) is not None:
    _tell(tag)
  return written


patches.replaces(tf.summary, "write")(_write)
# That which tf.summary.scalar calls.
patches.replaces(tensorboard.compat.tf2.summary, "write")(_write)


@patches.replaces(v1.summary, "scalar")
def _v1_scalar(original, name, tensor, collections=None, family=None):
  if not _is_intercepted.get():
    return original(name, tensor, collections, family)
  record(f"{family}/{name}" if family else name, tensor)
  return tf.constant(b"")  # a merged summary, which a host_call may still carry about


def _v1_other(original, name, *args, **kwargs):
  if _is_intercepted.get():
    _tell(name)
  return original(name, *args, **kwargs)


for _name in ("audio", "histogram", "image", "tensor_summary", "text"):
  patches.replaces(v1.summary, _name)(_v1_other)


def keep_writers(writers: list) -> contextlib.AbstractContextManager[None]:
  """Adds to a list what `tf.summary.create_file_writer` makes inside: else a writer that is
  made while a function is traced is gone when it runs.
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
  tag = _OUTER_SCOPES.sub("", tag, count=1)
  if getattr(_collecting, "scalars", None) is not None and tag not in _told:
    _told.add(tag)
    logging.warning(
      "The summary %r is not written: inside a model_fn, only scalars are. A host_call writes "
      "images, histograms and texts, see "
      "docs/follow_a_run.md.",
      tag,
    )


class Writer:
  """Writes to one directory of TensorBoard files, which is made when there is something to write.

  Args:
    directory: path, local or of any file system that tf.io.gfile knows.
  """

  def __init__(self, directory):
    self._directory = directory
    self._writer = None

  def scalars(self, step, values):
    """Writes a dict of floats as of a step."""
    with self._open().as_default():
      for tag, value in values.items():
        tf.summary.scalar(tag, value, step=step)
    self._writer.flush()

  def histograms(self, step, values):
    """Writes the distributions of a dict of arrays as of a step."""
    with self._open().as_default():
      for tag, value in values.items():
        tf.summary.histogram(tag, value, step=step)
    self._writer.flush()

  def text(self, step, tag, text):
    """Writes a text, shown as it stands."""
    with self._open().as_default():
      tf.summary.text(tag, "\n".join("    " + line for line in text.splitlines()), step=step)
    self._writer.flush()

  def _open(self):
    if self._writer is None:
      try:
        self._writer = tf.summary.create_file_writer(self._directory)
      except (OSError, tf.errors.OpError) as error:
        raise errors.OutputError(
          f"Cannot write TensorBoard files to {self._directory} (--model_dir): {error}"
        ) from error
    return self._writer

  def close(self):
    if self._writer is not None:
      self._writer.close()
      self._writer = None
