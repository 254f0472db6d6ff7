"""tf.summary: v1's functions, and the writers of TensorFlow 2 that host_calls use.

In a model_fn, scalars are written from the host with the step's number; a writer that a model_fn
makes outside of its host_call writes nothing, and does not stand in the way.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer.compat.v1 import habits, overlay

create_noop_writer = tf.summary.create_noop_writer
record_if = tf.summary.record_if
SummaryWriter = tf.summary.SummaryWriter


class _NoWriter:
  """A writer in a model_fn: its operations do nothing."""

  def init(self) -> Any:
    return tf.no_op()

  flush = close = init

  @contextlib.contextmanager
  def as_default(self, step: Any = None) -> Iterator["_NoWriter"]:
    del step
    yield self

  def set_as_default(self, step: Any = None) -> None:
    pass


def create_file_writer(logdir: str, *args: Any, **kwargs: Any) -> Any:
  """A writer of TensorBoard files, in a host_call or outside of a model_fn."""
  if habits.are_kept():
    return _NoWriter()
  return tf.summary.create_file_writer(logdir, *args, **kwargs)


__getattr__, __dir__ = overlay.behind(
  __name__, ("tensorflow.compat.v1.summary", "tensorflow.summary")
)
