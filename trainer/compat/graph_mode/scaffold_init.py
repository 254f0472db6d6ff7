"""Scaffold(init_fn=...) of programs that start from a checkpoint's values.

    saver = tf.train.Saver(variables)
    tf.train.Scaffold(init_fn=lambda scaffold, session: saver.restore(session, path))

TensorFlow called init_fn at the start of a training without a checkpoint. Octet calls it before the
variables have values. A Saver's restore in it, and contrib.framework.assign_from_checkpoint_fn,
then act as tf.train.init_from_checkpoint. Other runs of init_fn, such as
`session.run(w.assign(values))`, wait until the variables have values.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer import ModeKeys
from trainer.compat.graph_mode import habits, session_hooks, sessions

v1 = tf.compat.v1

# The other parts of a Scaffold.
_OTHERS = (
  "init_op",
  "init_feed_dict",
  "ready_op",
  "ready_for_local_init_op",
  "local_init_op",
  "local_init_feed_dict",
  "summary_op",
  "saver",
)


class RunsDue(session_hooks.NativeHook):
  """Runs an init_fn's deferred operations at the start of a training.

  Args:
    due: list of (fetches, feed_dict). Empty after the run, and if the training has a checkpoint.
  """

  def __init__(self, due: list[tuple[Any, Any]]) -> None:
    self._due = due
    self._session = sessions.Session()

  def attach(self, step: Any) -> None:
    self._session.attach()

  def start(self, estimator: Any) -> None:
    while self._due:
      self._session.run(*self._due.pop(0))

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    return False


def scaffold_fn(made: Any, due: list[tuple[Any, Any]]) -> Callable[[], Any] | None:
  """Returns Octet's scaffold_fn for an EstimatorSpec or TPUEstimatorSpec, or None.

  Args:
    made: the spec.
    due: the list for the runs that an init_fn asks for.
  """
  graph = habits.graph()
  if made.scaffold_fn is None and made.scaffold is None:
    return None

  def make() -> Any:
    scaffold = made.scaffold_fn() if made.scaffold_fn is not None else made.scaffold
    is_plain = type(scaffold) is v1.train.Scaffold
    if made.mode != ModeKeys.TRAIN or not is_plain or scaffold.init_fn is None:
      return scaffold
    with habits.enable(graph):  # placeholders are keys of init_fn's feed_dict
      scaffold.init_fn(sessions.Session(due=due))  # Scaffold adds itself as an argument
    # Octet refuses an init_fn in a Scaffold, and this one has run: pass on the other parts.
    return v1.train.Scaffold(**{name: getattr(scaffold, name) for name in _OTHERS})

  return make
