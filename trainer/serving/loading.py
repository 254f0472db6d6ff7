"""Loads an export: its engines, and the functions that make features of the user's data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.io import files, storage
from trainer.outputs import description as description_lib
from trainer.outputs import (
  engines,
  preprocessing,
  random_inputs,
  served_inputs,
  signatures,
  warm_up,
)
from trainer.outputs.preprocessing import FROM_BYTES, FROM_RAW
from trainer.serving.loaded_model import DEFAULT, LoadedModel, reason


def load(path: str, **settings: Any) -> LoadedModel:
  """Loads an export, and warms it up.

  Args:
    path: of the SavedModel.
    **settings: of `engines.load`, for serving_default. Other signatures run in TensorFlow.

  Raises:
    InputError: there is no such export, or it has no serving_default.
    SettingError, ExportError: the engine cannot run the export.
  """
  described = description_lib.read(path)
  if DEFAULT not in described["signatures"]:
    raise errors.InputError(
      f"{path} has no signature {DEFAULT!r}; it has {', '.join(described['signatures']) or 'none'}."
    )
  made = {DEFAULT: engines.load(path, **settings)}
  for signature in _other_signatures(described):
    made[signature] = engines.load(path, "tensorflow", signature=signature)
  loaded = LoadedModel(path, described, made, *_preprocessing(path, described))
  if loaded.for_users not in made:
    made[loaded.for_users] = _UsersEngine(loaded)
  _warm_up(loaded)
  logging.info("Loaded %s with the engine %s", path, loaded.engine.name)
  return loaded


class _UsersEngine(engines.Engine):
  """Makes features of files, columns or texts, for a whole batch at once; runs serving_default."""

  def __init__(self, loaded: LoadedModel) -> None:
    self.loaded, self.name = loaded, loaded.engine.name

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    loaded = self.loaded
    if loaded.preprocess is not None:
      return loaded.engine.predict_batch(loaded.preprocess(features))
    decoded = {name: loaded.decode(name, list(features[name])) for name in loaded.decoders}
    return loaded.engine.predict_batch({**features, **decoded})


def _other_signatures(described):
  """Returns the model's own signatures except serving_default, without those an export adds."""
  found = described["signatures"]
  default = found[DEFAULT]["inputs"]
  added = {signatures.FROM_EXAMPLES, signatures.CLASSIFY}
  if described["decodes"]:
    added.add(FROM_BYTES)
  if described.get("raw", {}):
    added.add(FROM_RAW)
  return [
    name
    for name, parts in found.items()
    if name != DEFAULT and (name not in added or parts["inputs"] == default)
  ]


def _warm_up(loaded):
  """Runs the export's warm-up requests, or a random one: the first call of a function compiles."""
  requests = warm_up.read(loaded.path)
  if not requests:
    specs = {name: tf.TensorSpec(one["shape"], one["dtype"]) for name, one in loaded.inputs.items()}
    features = random_inputs.make(specs, examples=1)
    requests = [] if features is None else [(DEFAULT, features)]
  for signature, inputs in requests:
    if signature in loaded.engines:
      loaded.engines[signature].predict_batch(inputs)


def _preprocessing(path, described):
  """Returns the decoders and the function `preprocess` of a LoadedModel."""
  if not described["decodes"] and not described.get("raw", {}):
    return {}, None
  with files.plain_path(path) as plain:
    model = storage.retry("load the model", path, lambda: tf.saved_model.load(plain))
  inputs = described["signatures"][DEFAULT]["inputs"]

  def batch(name):
    spec = tf.TensorSpec(inputs[name]["shape"], inputs[name]["dtype"])
    decode = tf.function(
      lambda encoded: preprocessing.decode(model.decoders[name], encoded, spec),
      input_signature=[tf.TensorSpec([None], tf.string)],
      autograph=False,
    )
    return decode.get_concrete_function()

  def preprocess(columns):
    # The function knows columns by their names in the table, the signature by its inputs' names.
    received = {
      name: tf.constant(columns[each["input"]]) for name, each in described["raw"].items()
    }
    try:
      made = model.preprocess(received)
    except tf.errors.InvalidArgumentError as error:  # such as a text that is no date
      raise errors.InputError(f"The columns do not fit: {reason(error)}") from error
    return {served_inputs.input_name(name): tensor.numpy() for name, tensor in made.items()}

  decoders = {name: batch(name) for name in described["decodes"]}
  return decoders, preprocess if described.get("raw", {}) else None
