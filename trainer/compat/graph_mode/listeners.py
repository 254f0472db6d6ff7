"""CheckpointSaverListeners, with a session that runs their operations on the variables.

A listener's `begin` builds operations, as `total.assign(previous)`, and runs them later. `begin`
runs in its own graph, in which names find the training's variables.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import habits, sessions

v1 = tf.compat.v1


class Listener(v1.train.CheckpointSaverListener):
  """A program's listener for Octet.

  Args:
    listener: the program's listener.
    variables: function that returns the training's variables by name.
  """

  def __init__(self, listener: Any, variables: Callable[[], Mapping[str, tf.Variable]]):
    self._listener, self._variables = listener, variables
    self._built: Any = None  # its graph, which keeps alive the variables that `begin` made
    self._session: sessions.Session | None = None

  def begin(self) -> None:
    self._built = _built(self._listener.begin, self._variables())
    self._session = sessions.Session(self._built.graph)

  def before_save(self, session: Any, global_step_value: int) -> None:
    self._listener.before_save(self._session, global_step_value)

  def after_save(self, session: Any, global_step_value: int) -> bool | None:
    return self._listener.after_save(self._session, global_step_value)

  def end(self, session: Any, global_step_value: int) -> None:
    self._listener.end(self._session, global_step_value)


def _built(build: Callable[[], None], variables: Mapping[str, tf.Variable]) -> Any:
  """Returns what a function builds in its own graph, in which names find the variables."""

  # tf.get_variable asks the creators around it. The listener gets the training's variable by this
  # creator, and a new variable for an unknown name.
  def find(make: Callable, **kwargs: Any) -> tf.Variable:
    found = variables.get(kwargs.get("name") or "")
    return make(**kwargs) if found is None else found

  # A new graph has empty collections; programs look up variables and the global step in them.
  def traced() -> None:
    for name, variable in variables.items():
      v1.add_to_collection(v1.GraphKeys.GLOBAL_VARIABLES, variable)
      if variable.trainable:
        v1.add_to_collection(v1.GraphKeys.TRAINABLE_VARIABLES, variable)
      if name == v1.GraphKeys.GLOBAL_STEP:
        v1.add_to_collection(v1.GraphKeys.GLOBAL_STEP, variable)
    with tf.variable_creator_scope(find), habits.enable():
      build()

  return v1.wrap_function(traced, [])
