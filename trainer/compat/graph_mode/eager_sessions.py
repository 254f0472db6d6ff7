"""Sessions outside of a graph: TensorFlow 1 had a default graph there, and Octet's programs run
eagerly.

    with tf.Graph().as_default(), tf.Session() as session:  # TensorFlow's own session
      session.run(tf.constant(1))

    tf.Session().run(tf.constant(1))  # SettingError: the graph of this session is empty
"""

from typing import Any

import tensorflow as tf

from trainer import errors

v1 = tf.compat.v1

_INSTEAD = (
  "Outside of a model_fn, operations run at once, and a session has no graph. Without a session, "
  "operations return their values. With one, build them inside `with tf.Graph().as_default(), "
  "tf.Session() as session:`. Beside a training, let a hook's session run them "
  "(tf.train.SessionRunHook)."
)


class _OfGraph:
  """The part of a session that refuses eager tensors and an empty graph."""

  def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs operations of the session's graph.

    Raises:
      SettingError: the graph is empty, or a fetch is an eager tensor or variable.
    """
    leaves = tf.nest.flatten(fetches)
    is_eager = any(
      isinstance(one, tf.Tensor | tf.Variable) and not _has_graph(one) for one in leaves
    )
    if is_eager or not self.graph.get_operations():
      raise errors.SettingError(f"tf.Session().run({fetches!r:.200}): expected a graph. {_INSTEAD}")
    return super().run(fetches, *args, **kwargs)


class Session(_OfGraph, v1.Session):
  """`tf.Session` of TensorFlow 1."""

  @staticmethod
  def reset(target: str, containers: Any = None, config: Any = None) -> None:
    """Does nothing: programs reset a TPU's machine before they used it."""


class InteractiveSession(_OfGraph, v1.InteractiveSession):
  """`tf.InteractiveSession` of TensorFlow 1."""


class _Monitored:
  def __init__(self, *args: Any, **kwargs: Any) -> None:
    _require_graph(f"tf.train.{type(self).__name__}")
    super().__init__(*args, **kwargs)


class MonitoredSession(_Monitored, v1.train.MonitoredSession):
  """`tf.train.MonitoredSession` of TensorFlow 1."""


class SingularMonitoredSession(_Monitored, v1.train.SingularMonitoredSession):
  """`tf.train.SingularMonitoredSession` of TensorFlow 1."""


def MonitoredTrainingSession(*args: Any, **kwargs: Any) -> v1.train.MonitoredSession:
  """`tf.train.MonitoredTrainingSession` of TensorFlow 1."""
  _require_graph("tf.train.MonitoredTrainingSession")
  return v1.train.MonitoredTrainingSession(*args, **kwargs)


def _has_graph(value: Any) -> bool:
  try:
    return value.graph is not None
  except AttributeError:
    return False


def _require_graph(name: str) -> None:
  if tf.executing_eagerly():
    raise errors.SettingError(f"{name}(...) outside of a graph. {_INSTEAD}")
