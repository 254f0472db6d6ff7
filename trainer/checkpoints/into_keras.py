"""Loads a checkpoint into a Keras model."""

import os
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.checkpoints import directory, keras_weights, leases, own_names, reader
from trainer.internals import keras_internals
from trainer.tracing import keras_scope


def load_into_keras(
  checkpoint_path: str | os.PathLike, model: keras.Model | Callable[[], keras.Model]
) -> keras.Model:
  """Loads the values of a checkpoint into a Keras model.

  Args:
    checkpoint_path: a checkpoint, or a folder (for its newest checkpoint).
    model: a built keras.Model, or a function that makes one (the build_model of
      `model_fn_from_keras`). Octet calls a function so that Keras numbers the layers as in training
      ("dense", "dense_1"). Octet looks variables up by their paths. If Keras numbered the layers of
      the model after other layers of the process ("dense_2", "dense_3"), Octet takes the layers of
      each kind in the order of their numbers.

  Returns:
    The model. Write it with `.save("x.keras")` or `.save_weights("x.weights.h5")`.

  Raises:
    CheckpointNotFoundError: there is no checkpoint.
    CheckpointError: a variable of the model is not in the checkpoint, or has another shape there.
      No value has changed.
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
  # A layer that `adapt` has prepared keeps its values, which may be in no checkpoint.
  adapted = {
    variable.path
    for layer in keras_internals.layers_of(model)
    if hasattr(layer, "adapt")
    for variable in layer.variables
  }

  def restore(path):
    found = reader.shapes(path)
    wanted = {name: each for name, each in variables.items() if name not in adapted - found.keys()}
    reader.restore(path, wanted, _stored_as(wanted, found))

  leases.read(lambda: directory.resolve(str(checkpoint_path)), restore)
  return model


def _stored_as(variables, found):
  """Maps the variables of a renumbered model to the names in a checkpoint; {} for another model."""
  if variables.keys() <= found.keys():
    return {}
  there = _by_counted_layer(own_names.own_names(found, set(found)))
  here = _by_counted_layer(variables)
  counts, others = (
    {kind: len(numbers) for kind, numbers in keras_weights.numbers_of(layers).items()}
    for layers in (_layers(variables), _layers(there.values()))
  )
  # If one has more layers of a kind than the other, no order tells the pairs.
  is_same = all(others.get(kind) == count for kind, count in counts.items())
  if not is_same or not here.keys() <= there.keys():
    return {}
  return {name: there[counted] for counted, name in here.items()}


def _by_counted_layer(names):
  """Maps each variable's name, with layers counted from 0, to the name."""
  counted = keras_weights.counted_from_0(_layers(names))
  return {
    "/".join(filter(None, [counted[layer], variable])): name
    for name in names
    for layer, _, variable in [name.rpartition("/")]
  }


def _layers(names):
  return {name.rpartition("/")[0] for name in names}


def build(build_model: Any) -> keras.Model:
  """Calls a function that makes a Keras model, and returns the model.

  Raises:
    SettingError: build_model is not such a function.
  """
  is_function = callable(build_model) and not isinstance(build_model, keras.Model)
  model = build_model() if is_function else None
  if not isinstance(model, keras.Model):
    made = f", which returns {model!r}." if is_function else "."
    raise errors.SettingError(
      f"Expected a function that makes a keras.Model, anew at each call; got {build_model!r}{made}"
    )
  return model
