"""tf.summary: v1's functions, and the writers of TensorFlow 2 that host_calls use.

In a model_fn, the host writes scalars with the step's number, and tags begin with the scopes around
the scalar. A writer that a model_fn makes outside of its host_call writes nothing and raises
nothing.
"""

import contextlib
import contextvars
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import habits
from trainer.internals import patches

v1 = tf.compat.v1


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


def _create_file_writer(original: Any, *args: Any, **kwargs: Any) -> Any:
  if habits.are_enabled() and not tf.executing_eagerly():  # a hook, which may write, runs eagerly
    return _NoWriter()
  writer = original(*args, **kwargs)
  if not tf.executing_eagerly() and writer.init() is None:
    # A host_call's function initializes the writer during the trace. Programs expect an operation
    # to depend on.
    writer.init = tf.no_op
  return writer


# TensorFlow's own modules too: a program imports them with `import tensorflow.compat.v2 as tf2`.
for _module in (tf.summary, tf.compat.v2.summary):
  patches.replaces(_module, "create_file_writer")(_create_file_writer)


def create_file_writer(logdir: str, *args: Any, **kwargs: Any) -> Any:
  """Makes a writer of TensorBoard files, in a host_call or outside of a model_fn."""
  if habits.are_enabled():
    return _NoWriter()
  return tf.summary.create_file_writer(logdir, *args, **kwargs)


class _Tags:
  """The tags of a model_fn's scalars: with the scopes around them, and each once."""

  def __init__(self):
    self._outside = tf.get_current_name_scope()
    self._taken: set[str] = set()

  def tag(self, name: str) -> str:
    scope = f"{tf.get_current_name_scope()}/".removeprefix(f"{self._outside}/")
    tag = first = f"{scope}{name}".lstrip("/")
    count = 0
    while tag in self._taken:
      count += 1
      tag = f"{first}_{count}"
    self._taken.add(tag)
    return tag


# Tags of the model_fn being traced on this thread; None outside of a model_fn.
_tags: contextvars.ContextVar[_Tags | None] = contextvars.ContextVar("compat_tags", default=None)


def model_fn_tags() -> contextlib.AbstractContextManager[None]:
  """Gives scalars the tags of a TensorFlow 1 graph, inside the context and on this thread."""
  return patches.set_context(_tags, _Tags())


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Any:
  """As tf.compat.v1.summary.scalar. In a model_fn, the tag is `scope/name`.

  Args:
    family: the prefix of the tag, as in TensorFlow 1: `family/scope/family/name`.
  """
  tags = _tags.get()
  if tags is None:
    return v1.summary.scalar(name, tensor, collections, family)
  clean = _clean(name)
  if family is None:
    return v1.summary.scalar(tags.tag(clean), tensor, collections)
  family = _clean(family)
  return v1.summary.scalar(f"{family}/{tags.tag(f'{family}/{clean}')}", tensor, collections)


def _clean(name: str) -> str:
  return re.sub(r"[^-/\w.]", "_", name).lstrip("/")


def _graph() -> contextlib.AbstractContextManager:
  """Makes a graph if there is none: TensorFlow makes TensorFlow 1's writers in graphs alone."""
  return tf.Graph().as_default() if tf.executing_eagerly() else contextlib.nullcontext()


class FileWriter(v1.summary.FileWriter):
  """A writer of events. Programs also make it outside of a graph, such as beside an Estimator."""

  def __init__(self, *args: Any, **kwargs: Any):
    with _graph():
      super().__init__(*args, **kwargs)


class FileWriterCache(v1.summary.FileWriterCache):
  """Keeps one writer for each folder."""

  @staticmethod
  def get(logdir: str) -> v1.summary.FileWriter:
    """Returns a folder's writer, and makes it at the first call."""
    with _graph():
      return v1.summary.FileWriterCache.get(logdir)
