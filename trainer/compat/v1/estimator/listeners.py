"""CheckpointSaverListeners, with a session that runs what they made of the variables.

A listener's `begin` builds operations, as `total.assign(previous)`, and runs them later. It is
called in a graph of its own, in which the training's variables are found by their names.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer.compat.v1 import habits

v1 = tf.compat.v1


class Listener(v1.train.CheckpointSaverListener):
  """A program's listener for Octet, which has no session to give it.

  Args:
    listener: it.
    variables: function that returns the training's variables by name.
  """

  def __init__(self, listener: Any, variables: Callable[[], Mapping[str, tf.Variable]]):
    self._listener, self._variables = listener, variables
    self._session: _GraphSession | None = None

  def begin(self) -> None:
    self._session = _GraphSession(self._listener.begin, self._variables())

  def before_save(self, session: Any, global_step_value: int) -> None:
    self._listener.before_save(self._session, global_step_value)

  def after_save(self, session: Any, global_step_value: int) -> bool | None:
    return self._listener.after_save(self._session, global_step_value)

  def end(self, session: Any, global_step_value: int) -> None:
    self._listener.end(self._session, global_step_value)


class _GraphSession:
  """What stands for a session: runs variables, and what a function made of them in a graph.

  Args:
    build: the function.
    variables: those that there are, by name.
  """

  def __init__(self, build: Callable[[], None], variables: Mapping[str, tf.Variable]):
    def find(make: Callable, **kwargs: Any) -> tf.Variable:
      found = variables.get(kwargs.get("name") or "")
      return make(**kwargs) if found is None else found

    def traced() -> None:
      for name, variable in variables.items():
        v1.add_to_collection(v1.GraphKeys.GLOBAL_VARIABLES, variable)
        if variable.trainable:
          v1.add_to_collection(v1.GraphKeys.TRAINABLE_VARIABLES, variable)
        if name == v1.GraphKeys.GLOBAL_STEP:
          v1.add_to_collection(v1.GraphKeys.GLOBAL_STEP, variable)
      with tf.variable_creator_scope(find), habits.kept():
        build()

    self._function = v1.wrap_function(traced, [])

  @property
  def graph(self) -> Any:
    return self._function.graph

  def run(self, fetches: Any, feed_dict: Any = None, options: Any = None) -> Any:
    """Values of variables, tensors and operations of the graph, in any structure."""
    del feed_dict, options
    return tf.nest.map_structure(self._run, fetches)

  def _run(self, fetch: Any) -> Any:
    if isinstance(fetch, str):
      fetch = self.graph.as_graph_element(fetch)
    if isinstance(fetch, tf.Variable):
      if getattr(fetch, "op", None) is None:  # and not what an assignment returns
        return fetch.numpy()
      with self.graph.as_default():
        fetch = tf.convert_to_tensor(fetch)
    value = self._function.prune([], fetch)()
    return value.numpy() if tf.is_tensor(value) else None
