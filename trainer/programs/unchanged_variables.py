"""Warns of a training step that changes no trainable variable.

A tf.no_op() as the train_op, an optimizer that nothing applies, or an optimizer with an empty list:
the training counts its steps and reports its loss, and the model stays unchanged.
"""

from typing import Any

import tensorflow as tf

from trainer.cli import notices
from trainer.programs import graph_operations
from trainer.tracing import user_frames, variable_store


def warn_if_unchanged(store: variable_store.VariableStore, train_op: Any, model_name: str) -> None:
  """Warns if the newest traced training step changes no trainable variable.

  A model with only frozen variables (`layer.trainable = False`,
  `tf.Variable(..., trainable=False)`) stays unchanged on purpose, and causes no warning.

  Args:
    store: the store of the trace, with its requests after some steps.
    train_op: the EstimatorSpec's.
    model_name: the model_fn's name.
  """
  if not store.is_untrained():
    return
  names = [getattr(variable, "path", variable.name) for variable in store.trainable_variables()]
  text = (
    f"model_fn {model_name}: the train_op{_where(train_op)} changes none of the {len(names)} "
    f"trainable variables ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}): the "
    "training will not change the model. Give train_op=trainer.minimize(optimizer, loss), or "
    "freeze them on purpose with trainable=False."
  )
  notices.warn_once(text)


def _where(train_op):
  """Returns the line of the model_fn that made an op; "" for a variable, which has no line."""
  operation = getattr(train_op, "op", train_op)
  frames = graph_operations.frames_of(operation) if isinstance(operation, tf.Operation) else []
  # An op from between the replicas comes from outside of the call.
  return user_frames.where(user_frames.inside_model_fn(frames))
