"""Scalars that a model_fn gives to `tf.summary`, and the TensorBoard files that the host writes.

A step runs on the device, many times in one call, where no file can be written. So `tf.summary.scalar` inside a model_fn only leaves its value
behind; the host writes it, with the number of the step that it belongs to. Images, histograms and texts are not written from there, which a warning
says; a host_call can write them.
"""

import contextlib
import functools
import re
import threading
from unittest import mock

import tensorboard.compat
import tensorflow as tf
from absl import logging

from trainer import errors

v1 = tf.compat.v1

# The scopes around a model_fn's own, which tell of loops and replicas: see variables.VariableStore.run.
_OUTER_SCOPES = re.compile(r"^.*?\bmodel_fn(_\d+)?/")

# What else tf.compat.v1.summary writes.
_V1_OTHERS = ("audio", "histogram", "image", "tensor_summary", "text")

_collecting = threading.local()
_told = set()  # tags of what is not written, each of which is told once a process


@contextlib.contextmanager
def collecting():
  """Yields a dict that receives, by tag, each scalar (float32 tensor) that is given to tf.summary inside. Per thread: one per replica."""
  outer = getattr(_collecting, "scalars", None)
  _collecting.scalars = scalars = {}
  try:
    yield scalars
  finally:
    _collecting.scalars = outer


def record(tag, value):
  """Leaves a scalar behind for the log and for TensorBoard; outside `collecting` it is nobody's."""
  scalars = getattr(_collecting, "scalars", None)
  if scalars is not None:
    scalars[tag] = tf.cast(tf.reshape(value, []), tf.float32)


@contextlib.contextmanager
def intercepted():
  """`tf.summary.scalar` and `tf.compat.v1.summary.scalar` record inside; entered once around a trace."""
  write = tf.summary.write

  def record_or_write(tag, tensor, step=None, metadata=None, name=None):
    if metadata is not None and metadata.plugin_data.plugin_name == "scalars":
      record(_OUTER_SCOPES.sub("", tag, count=1), tensor() if callable(tensor) else tensor)
      return tf.constant(True)
    written = write(tag, tensor, step=step, metadata=metadata, name=name)
    if tf.get_static_value(written) is not None:  # False: the model_fn has no writer of its own around it
      _tell(tag)
    return written

  def tell_v1(other, name, *args, **kwargs):
    _tell(name)
    return other(name, *args, **kwargs)

  def record_v1(name, tensor, collections=None, family=None):
    del collections
    record(f"{family}/{name}" if family else name, tensor)
    return tf.constant(b"")  # a merged summary, which a host_call may still carry about

  with (
      mock.patch.object(tf.summary, "write", record_or_write),
      mock.patch.object(tensorboard.compat.tf2.summary, "write", record_or_write),  # which tf.summary.scalar calls
      mock.patch.object(v1.summary, "scalar", record_v1),
      mock.patch.multiple(v1.summary, **{name: functools.partial(tell_v1, getattr(v1.summary, name)) for name in _V1_OTHERS}),
  ):
    yield


@contextlib.contextmanager
def writers_kept(writers):
  """Adds to a list what `tf.summary.create_file_writer` makes inside: else a writer that is made while a function is traced is gone when it runs."""
  create = tf.summary.create_file_writer

  def create_and_keep(*args, **kwargs):
    writers.append(create(*args, **kwargs))
    return writers[-1]

  with (
      mock.patch.object(tf.summary, "create_file_writer", create_and_keep),
      mock.patch.object(tf.compat.v2.summary, "create_file_writer", create_and_keep),
  ):
    yield


def _tell(tag):
  tag = _OUTER_SCOPES.sub("", tag, count=1)
  if getattr(_collecting, "scalars", None) is not None and tag not in _told:
    _told.add(tag)
    logging.warning(
        "The summary %r is not written: inside a model_fn, only scalars are. A host_call writes images, histograms and texts, see "
        "docs/follow_a_run.md.", tag)


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
        raise errors.OutputError(f"Cannot write TensorBoard files to {self._directory} (--model_dir): {error}") from error
    return self._writer

  def close(self):
    if self._writer is not None:
      self._writer.close()
      self._writer = None
