"""Metrics of Keras that a model_fn makes and updates. Octet updates them on the host.

accuracy = tf.keras.metrics.Accuracy()
accuracy.update_state(labels, classes)
eval_metric_ops={"accuracy": accuracy}
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.compat.graph_mode import habits
from trainer.internals import patches

# In an evaluated model_fn: the updates of each metric, [(metric, args, kwargs)].
_updates: contextvars.ContextVar[list[tuple[Any, tuple, dict]] | None] = contextvars.ContextVar(
  "compat_keras_metrics", default=None
)


@contextlib.contextmanager
def defer_updates(evaluating: bool) -> Iterator[None]:
  """If `evaluating`, records updates of Keras metrics instead of running them, on this thread."""
  with patches.set_context(_updates, [] if evaluating else None):
    yield


@patches.replaces(keras.metrics.Metric, "add_variable")
def _add_variable(original, metric, *args, **kwargs):
  """Makes no variable for a metric of an evaluating model_fn: the metric counts on the host.

  In a training, a metric counts in local variables, which checkpoints leave out.
  """
  if _updates.get() is not None:
    return None
  with tf.variable_creator_scope(_local) if habits.are_enabled() else contextlib.nullcontext():
    return original(metric, *args, **kwargs)


def _local(next_creator: Callable, **kwargs: Any) -> Any:
  return next_creator(**kwargs | {"collections": [tf.compat.v1.GraphKeys.LOCAL_VARIABLES]})


@patches.replaces(keras.metrics.Metric, "__getattribute__")
def _attribute(original, metric, name):
  # Each metric class overrides these methods, so a replacement on the base class would miss them.
  if name not in ("update_state", "result") or _updates.get() is None:
    return original(metric, name)
  if name == "result":
    raise errors.SpecError(
      f"The model_fn asks for the result of {type(metric).__name__}, but the host counts this "
      "metric: give the metric itself in eval_metric_ops."
    )

  def note(*args: Any, **kwargs: Any) -> tf.Operation:
    _updates.get().append((metric, args, kwargs))
    return tf.no_op()

  return note


def updates_of(name: str, metric: keras.metrics.Metric) -> list[tuple[Callable, tuple]]:
  """Returns a metric's updates in this model_fn: [(function of a metric, (args, kwargs))].

  Raises:
    SpecError: the model_fn does not update the metric.
  """
  found = [
    (lambda anew, *args, **kwargs: anew.update_state(*args, **kwargs), (args, kwargs))
    for one, args, kwargs in _updates.get() or ()
    if one is metric
  ]
  if not found:
    raise errors.SpecError(
      f"eval_metric_ops[{name!r}] is {metric!r}, but the model_fn does not update it: call "
      "update_state(labels, predictions)."
    )
  return found


def anew(metric: keras.metrics.Metric) -> keras.metrics.Metric:
  """Returns a new metric of the same kind and configuration."""
  return type(metric).from_config(metric.get_config())
