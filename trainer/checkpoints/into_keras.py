"""Loads a checkpoint into a Keras model."""

import os
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.checkpoints import directory, reader
from trainer.tracing import keras_scope


def load_into_keras(
  checkpoint_path: str | os.PathLike, model: keras.Model | Callable[[], keras.Model]
) -> keras.Model:
  """Loads the values of a checkpoint into a Keras model.

  Args:
    checkpoint_path: a checkpoint, or a folder, whose newest checkpoint is taken.
    model: a built keras.Model, or a function that makes one (the build_model of
      `model_fn_from_keras`). Variables are looked up by their paths. Prefer a function: Octet calls
      it so that Keras numbers the layers as in training ("dense", "dense_1"), whatever layers the
      process has created before.

  Returns:
    The model. Write it with `.save("x.keras")` or `.save_weights("x.weights.h5")`.

  Raises:
    CheckpointNotFoundError: there is no checkpoint.
    CheckpointError: a variable of the model is not in the checkpoint, or has another shape there.
      No value was changed.
    SettingError: model is neither a model nor a function, or it has no variables yet.
  """
  if not isinstance(model, keras.Model):
    policy = keras.config.dtype_policy().name
    with keras_scope.KerasScope(policy, seed=0, step=tf.constant(0, tf.int64)).replica_scope():
      model = build(model)
  variables = {variable.path: variable.value for variable in model.weights}
  if not variables:
    raise errors.SettingError(
      f"load_into_keras: the model {model.name!r} has no variables yet: build it, or call it once."
    )
  reader.restore(directory.resolve(str(checkpoint_path)), variables)
  return model


def build(build_model: Any) -> keras.Model:
  """Calls a function that makes a Keras model.

  Args:
    build_model: the function, without arguments.

  Returns:
    The model.

  Raises:
    SettingError: build_model is not such a function.
  """
  is_function = callable(build_model) and not isinstance(build_model, keras.Model)
  model = build_model() if is_function else None
  if not isinstance(model, keras.Model):
    made = f", which gives {model!r}." if is_function else "."
    raise errors.SettingError(
      f"Expected a function that makes a keras.Model, anew at each call; got {build_model!r}{made}"
    )
  return model
