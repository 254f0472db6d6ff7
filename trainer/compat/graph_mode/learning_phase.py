"""The learning phase of Keras 2, for layers of Keras 3.

A program of graph mode says once in its model_fn whether it trains,
`tf.keras.backend.set_learning_phase(is_training)`, and calls layers without `training`.
"""

import contextvars
import functools
import inspect
import types
import weakref
from typing import Any

import keras
import tensorflow as tf

from trainer.compat.graph_mode import habits
from trainer.internals import patches

# By graph of a model_fn, whether layers train that nobody tells.
_phases: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

# Whether a layer calls another one, which then does what the outer one was told.
_is_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("compat_inside", default=False)


def learning_phase() -> int:
  """1 where the model_fn has said that it trains, else 0."""
  return int(bool(_phase()))


def set_learning_phase(value: Any) -> None:
  """Says whether layers train that are called without `training`."""
  if habits.are_enabled():
    _phases[habits.graph()] = bool(value)


def _phase() -> bool | None:
  return _phases.get(habits.graph()) if habits.are_enabled() else None


@functools.cache
def _takes_training(call: Any) -> bool:
  return "training" in inspect.signature(call).parameters


@patches.replaces(keras.layers.Layer, "__call__")
def _call(original, self, *args, **kwargs):
  phase = _phase()
  if phase is None or _is_inside.get():
    return original(self, *args, **kwargs)
  if kwargs.get("training") is None and _takes_training(type(self).call):
    kwargs["training"] = phase
  with patches.set_context(_is_inside, True):
    return original(self, *args, **kwargs)


backend = types.SimpleNamespace(
  **{name: getattr(tf.keras.backend, name) for name in dir(tf.keras.backend) if name[0] != "_"}
)
backend.learning_phase = learning_phase
backend.set_learning_phase = set_learning_phase
