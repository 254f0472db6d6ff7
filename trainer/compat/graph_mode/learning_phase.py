"""The learning phase of Keras 2, for layers of Keras 3.

A program of graph mode sets once in its model_fn whether it trains,
`tf.keras.backend.set_learning_phase(is_training)`, and calls layers without `training`.
"""

import contextvars
import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

from trainer.compat.graph_mode import habits
from trainer.internals import patches

# Graph of a model_fn → the phase of layers without a `training` argument.
_phases: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

# Whether an outer layer calls this one: then the outer layer passes `training` on.
_is_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("compat_inside", default=False)


def learning_phase() -> int:
  """Returns 1 if the model_fn has set training, else 0."""
  return int(bool(_phase()))


def set_learning_phase(value: Any) -> None:
  """Sets whether layers train that the program calls without `training`."""
  if habits.are_enabled():
    _phases[habits.graph()] = bool(value)


def set_session(session: Any) -> None:
  """Does nothing: Keras 3 has no session. Programs set one for its options of a GPU."""


def _phase() -> bool | None:
  return _phases.get(habits.graph()) if habits.are_enabled() else None


@functools.cache
def _takes_training(call: Any) -> bool:
  return "training" in inspect.signature(call).parameters


def call(inner: Callable, layer: Any, *args: Any, **kwargs: Any) -> Any:
  """Calls a layer in the phase of its model_fn; see layer_calls."""
  phase = _phase()
  if phase is None or _is_inside.get():
    return inner(layer, *args, **kwargs)
  if kwargs.get("training") is None and _takes_training(type(layer).call):
    kwargs["training"] = phase
  with patches.set_context(_is_inside, True):
    return inner(layer, *args, **kwargs)
