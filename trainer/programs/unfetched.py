"""Warns of assignments in a model_fn that nothing fetches: neither train_op nor loss needs them.

In a native model_fn they run in each step, for example the second of two optimizers. In a model_fn
of `trainer.compat.v1` they do not run: without a fetch of `layer.updates`, the assignments of a
Keras layer, such as moving averages, are lost.
"""

import os
from typing import Any

import keras
import tensorflow as tf

from trainer.cli import notices, user_code
from trainer.optimization import optimizers
from trainer.tracing import fetched_operations, user_frames

_KERAS, _TENSORFLOW = (os.path.join(os.path.dirname(each.__file__), "") for each in (keras, tf))
_KERAS_VARIABLES = os.path.join("backend", "common", "variables.py")


def warn(made: fetched_operations.Made, fetched: Any, model_name: str) -> None:
  """Warns of each line of the user's that makes such an assignment.

  Args:
    made: the operations of the model_fn.
    fetched: nest of the tensors and operations that the step fetches.
    model_name: the model_fn's name.
  """
  needed = fetched_operations.changes(fetched)
  graph = tf.compat.v1.get_default_graph()
  for operation in made.changes():
    if operation in needed or operation.graph is not graph:  # a branch runs with its tf.cond
      continue
    frames = _frames(made.traceback(operation))
    if not frames or _is_of_keras(frames) != made.runs_only_fetched:
      continue
    where = user_frames.where(frames)
    if made.runs_only_fetched:
      text = (
        f"model_fn {model_name}: a call of a Keras layer{where} assigns variables, and nothing "
        "fetches the assignment: they keep their values, as in TensorFlow 2.15. To change them, "
        "let train_op depend on layer.updates."
      )
    else:
      text = (
        f"model_fn {model_name}: an assignment{where} runs in each step, and nothing fetches it: "
        "train_op, loss and metrics do without it. Take it out, or add it to train_op by "
        "tf.group."
      )
    notices.warn_once(text)


def _frames(frames):
  """The frames inside of the model_fn, the outermost first; none if no user's is among them."""
  inside = user_frames.inside_model_fn(frames)
  return inside if any(user_code.is_users(file) for file, _ in inside) else []


def _is_of_keras(frames):
  """Whether a layer or an optimizer of Keras makes the assignment, and not the user's own code."""
  files = [file for file, _ in frames]
  innermost = max(index for index, file in enumerate(files) if user_code.is_users(file))
  if any(file.startswith(_KERAS) for file in files[:innermost]):
    return True  # the user's own layer
  for file in files[innermost + 1 :]:
    if file.startswith(_TENSORFLOW) or file == optimizers.__file__:
      return False
    if file.startswith(_KERAS):
      return not file.endswith(_KERAS_VARIABLES)
  return False
