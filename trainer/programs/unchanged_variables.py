"""Warns of a training that trains nothing: a step that changes no trainable variable.

A tf.no_op() for a train_op, an optimizer that was made and not applied, or one that got an empty
list: the steps are counted, the loss is reported, and the model stays as it was.
"""

from typing import Any

import tensorflow as tf

from trainer.cli import notices
from trainer.programs import graph_operations
from trainer.tracing import user_frames, variable_store


def warn_if_unchanged(store: variable_store.VariableStore, train_op: Any, model_name: str) -> None:
  """Warns if the training step that was traced last changes no trainable variable.

  A model whose variables are all frozen (`layer.trainable = False`, `tf.Variable(...,
  trainable=False)`) has none, and is meant to stay as it is: nothing is told.

  Args:
    store: in which the step was traced, with what it does after some steps.
    train_op: of the EstimatorSpec.
    model_name: the model_fn's.
  """
  if not store.is_untrained():
    return
  names = [getattr(variable, "path", variable.name) for variable in store.trainable_variables()]
  text = (
    f"model_fn {model_name}: the train_op{_where(train_op)} changes none of the {len(names)} "
    f"trainable variables ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}): the "
    "training will leave the model as it is. Give train_op=trainer.minimize(optimizer, loss), or "
    "freeze them with trainable=False if that is meant."
  )
  notices.warn_once(text)


def _where(train_op):
  """Where the model_fn made an op; "" for a variable, which says nothing of that."""
  operation = getattr(train_op, "op", train_op)
  frames = graph_operations.frames_of(operation) if isinstance(operation, tf.Operation) else []
  # An op that was made between the replicas was not made inside of the call.
  return user_frames.where(user_frames.inside_model_fn(frames))
