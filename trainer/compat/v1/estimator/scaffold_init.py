"""Scaffold(init_fn=...) of programs that begin with a checkpoint's values.

    saver = tf.train.Saver(variables)
    tf.train.Scaffold(init_fn=lambda scaffold, session: saver.restore(session, path))

A session called it when a training began without a checkpoint of its own. Here it is called before
the variables have values: a Saver's restore says that variables begin with a checkpoint's values,
as tf.train.init_from_checkpoint does; so does contrib.framework.assign_from_checkpoint_fn. What it
runs, as `session.run(w.assign(values))`, is run when they have them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer import ModeKeys, errors
from trainer.compat.v1 import habits
from trainer.compat.v1.estimator import session_hooks, sessions

v1 = tf.compat.v1

# What a Scaffold holds beside its init_fn.
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


class InitSession:
  """What an init_fn gets for a session, before the variables have values.

  Args:
    due: list to which it adds what the init_fn runs: (fetches, feed_dict).
  """

  graph = None

  def __init__(self, due: list[tuple[Any, Any]]) -> None:
    self._due = due

  def run(self, fetches: Any, feed_dict: Any = None, *unused: Any, **ignored: Any) -> None:
    """Has operations run when the variables have their initial values.

    Raises:
      SettingError: the init_fn asks for a value.
    """
    for fetch in tf.nest.flatten(fetches):
      if not isinstance(getattr(fetch, "op", fetch), tf.Operation):
        raise errors.SettingError(
          f"A Scaffold's init_fn asks for {fetch!r}, and variables have no values yet: let it run "
          "assignments, or restore a tf.train.Saver."[:500]
        )
    self._due.append((fetches, feed_dict))

  def restore(self, path: str, wanted: Mapping[str, Any] | None) -> None:
    """Has variables begin with a checkpoint's values."""
    if wanted is None:
      wanted = {one.name.partition(":")[0]: one for one in v1.global_variables()}
    v1.train.init_from_checkpoint(path, wanted)


class RunsDue(session_hooks.NativeHook):
  """Runs what an init_fn has asked for, when a training begins.

  Args:
    due: what it is; empty afterwards, and where a training goes on from a checkpoint.
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
  """The scaffold_fn for Octet of an EstimatorSpec or TPUEstimatorSpec; None for none.

  Args:
    made: the spec.
    due: list to which it adds what an init_fn runs.
  """
  graph = habits.graph()
  if made.scaffold_fn is None and made.scaffold is None:
    return None

  def make() -> Any:
    scaffold = made.scaffold_fn() if made.scaffold_fn is not None else made.scaffold
    is_plain = type(scaffold) is v1.train.Scaffold
    if made.mode != ModeKeys.TRAIN or not is_plain or scaffold.init_fn is None:
      return scaffold
    with habits.kept(graph):  # placeholders are keys of its feed_dict
      scaffold.init_fn(InitSession(due))  # the Scaffold gives itself
    return v1.train.Scaffold(**{name: getattr(scaffold, name) for name in _OTHERS})

  return make
