"""tf.contrib.summary: writers and summaries of TensorFlow 2, under the names that host_calls
use.
"""

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def always_record_summaries() -> Any:
  """Returns a context that writes every summary."""
  return tf.summary.record_if(True)


def never_record_summaries() -> Any:
  """Returns a context that writes no summary."""
  return tf.summary.record_if(False)


def record_summaries_every_n_global_steps(n: int, global_step: Any = None) -> Any:
  """Returns a context that writes summaries at multiples of n steps."""
  step = v1.train.get_or_create_global_step() if global_step is None else global_step
  return tf.summary.record_if(lambda: tf.equal(tf.cast(step, tf.int64) % n, 0))


def all_summary_ops() -> list[Any]:
  """Returns nothing: a host_call writes its summaries when it runs."""
  return []


def summary_writer_initializer_op() -> list[Any]:
  """Does nothing: a new writer is ready."""
  return []


def initialize(graph: Any = None, session: Any = None) -> None:
  """Does nothing: a new writer is ready."""


def flush(writer: Any = None, name: str | None = None) -> Any:
  """Writes a writer's buffered summaries."""
  del name
  return tf.summary.flush() if writer is None else writer.flush()


def _tag(name: str, family: str | None) -> str:
  return f"{family}/{name}" if family else name


def _step(step: Any) -> Any:
  return v1.train.get_or_create_global_step() if step is None else tf.cast(step, tf.int64)


def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
  """Writes a scalar; of a tensor with more elements, the first, as in TensorFlow 1."""
  return tf.summary.scalar(_tag(name, family), tf.reshape(tensor, [-1])[0], _step(step))


def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
  """Writes the distribution of a tensor."""
  return tf.summary.histogram(_tag(name, family), tensor, _step(step))


def image(
  name: str,
  tensor: Any,
  bad_color: Any = None,
  max_images: int = 3,
  family: str | None = None,
  step: Any = None,
) -> Any:
  """Writes images."""
  del bad_color
  return tf.summary.image(_tag(name, family), tensor, _step(step), max_images)


def audio(
  name: str,
  tensor: Any,
  sample_rate: Any,
  max_outputs: int,
  family: str | None = None,
  step: Any = None,
) -> Any:
  """Writes sounds."""
  return tf.summary.audio(_tag(name, family), tensor, int(sample_rate), _step(step), max_outputs)
