"""A model in memory: what runs it, what it takes, how its files are decoded.

loaded = load("out/digits/export/1732283000", name="auto", batch_sizes=(1, 128))
loaded.engine.predict_batch(loaded.check({"image": images}))["probabilities"]
"""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
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
from trainer.outputs.engines import Engine  # the field `engines` hides the module
from trainer.outputs.preprocessing import FROM_BYTES, FROM_RAW
from trainer.serving import raw_values

DEFAULT = "serving_default"


@dataclasses.dataclass(frozen=True)
class LoadedModel:
  """A model in memory.

  Attributes:
    path: of the SavedModel.
    description: see `outputs.description`.
    engines: signature → what runs it: serving_default, the model's own further signatures
      (EstimatorSpec.export_outputs), and from_bytes or from_raw if users have something else than
      features.
    decoders: feature → function from encoded files (a string tensor of shape [n]) to the feature.
    preprocess: function from columns and texts, by their names, to the features; or None.
  """

  path: str
  description: Mapping
  engines: Mapping[str, Engine]
  decoders: Mapping[str, Callable]
  preprocess: Callable | None = None

  @property
  def engine(self) -> Engine:
    """Runs the signature serving_default."""
    return self.engines[DEFAULT]

  @property
  def inputs(self) -> dict[str, dict]:
    """Dict of feature → {"dtype", "shape"}, as serving_default takes them."""
    return self.description["signatures"][DEFAULT]["inputs"]

  @functools.cached_property
  def raw(self) -> dict[str, dict]:
    """Dict of column or text → {"input", "optional", "dtype", "shape"}, as from_raw takes them."""
    told = self.description.get("raw", {})  # the first exports tell nothing of it
    inputs = self.description["signatures"][FROM_RAW]["inputs"] if told else {}
    return {name: {**each, **inputs[each["input"]]} for name, each in told.items()}

  @property
  def for_users(self) -> str:
    """The signature that takes what users have: files, columns, texts, or else the features."""
    return FROM_RAW if self.raw else FROM_BYTES if self.decoders else DEFAULT

  def takes(self, names: Collection[str]) -> dict[str, dict]:
    """What is taken of an example that has values of these names: `raw`, or else `inputs`."""
    if not self.raw:
      return self.inputs
    has_features = set(self.inputs) <= set(names) and not set(self.raw) <= set(names)
    return self.inputs if has_features else self.raw

  @property
  def outputs(self) -> dict[str, dict]:
    """Dict of output → {"dtype", "shape"}."""
    return self.description["signatures"][DEFAULT]["outputs"]

  @property
  def class_names(self) -> Sequence[str] | None:
    """The names of the classes in the order of their numbers, or None."""
    return self.description["class_names"]

  @property
  def version(self) -> str:
    """The name of the SavedModel's folder."""
    return os.path.basename(os.path.normpath(self.path))

  def decode(self, feature: str, encoded: Sequence[bytes]) -> np.ndarray:
    """Features of encoded files, as the input pipeline made them for the model.

    Raises:
      InputError: the model takes no files there, or one of these cannot be decoded.
    """
    if feature not in self.decoders:
      raise errors.InputError(
        f"The export {self.path} cannot decode files for {feature!r}; it can for "
        f"{', '.join(self.decoders) or 'nothing'}."
      )
    try:
      return self.decoders[feature](tf.constant(encoded, tf.string, [len(encoded)])).numpy()
    except tf.errors.OpError as error:
      what = re.sub(r"\{\{function_node [^}]*\}\}|\[\[.*|\[Op:.*", "", error.message, flags=re.S)
      raise errors.InputError(f"It cannot be decoded: {_short(what.strip())}") from error

  def check(self, features: Mapping[str, Any], signature: str = DEFAULT) -> dict[str, np.ndarray]:
    """Features as arrays of the right types and shapes.

    from_raw takes columns by the names that they have in a table, too. There None is a missing
    value, and a number is a text where texts are expected.

    Raises:
      InputError: says which feature is missing or does not fit; or there is no such signature.
    """
    if signature not in self.engines:
      raise errors.InputError(
        f"The model has no signature {signature!r} of its own; it has {', '.join(self.engines)}."
      )
    inputs = self.description["signatures"][signature]["inputs"]
    if signature == FROM_RAW and self.raw:
      features = raw_values.served(features, self.raw)
    unknown = sorted(set(features) - set(inputs))
    missing = sorted(set(inputs) - set(features))
    if unknown or missing:
      of_raw = f" Its signature {FROM_RAW} takes {', '.join(self.raw)}."
      raise errors.InputError(
        f"The model takes {', '.join(sorted(inputs))}; "
        + (f"{missing[0]!r} is missing." if missing else f"it knows no {unknown[0]!r}.")
        + (of_raw if self.raw and signature == DEFAULT else "")
      )
    arrays = {name: _array(name, features[name], spec) for name, spec in inputs.items()}
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
      shown = ", ".join(f"{size} of {name}" for name, size in sizes.items())
      raise errors.InputError(
        f"Features must be of the same number of examples; there are {shown}."
      )
    if not next(iter(sizes.values()), 1):
      raise errors.InputError("There is no example.")
    return arrays


def _short(line):
  return line if len(line) <= 200 else line[:199] + "…"


def _array(name, value, spec):
  dtype, shape = spec["dtype"], spec["shape"]
  text = dtype == "string"
  wanted = f"{dtype}{['n' if size is None else size for size in shape or [None]]}".replace("'", "")
  try:
    array = np.asarray(value, object if text else None)
    if not text:
      if array.dtype.kind not in "fiubV":
        raise ValueError(f"it has {array.dtype.name} values")
      target = tf.as_dtype(dtype).as_numpy_dtype
      # NaN and numbers beyond the type are found below, or are legal: no warning of numpy.
      with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(target, copy=False)
      if array.dtype.kind in "fV" and tf.as_dtype(dtype).is_integer:
        wrong = np.argwhere(array != converted)
        if len(wrong):
          place = [int(index) for index in wrong[0]]
          raise ValueError(f"it has values that are no integers, {array[tuple(place)]} at {place}")
      array = converted
  except (ValueError, TypeError, OverflowError) as error:
    raise errors.InputError(
      f"The feature {name!r} must be {wanted}: {_short(str(error))}."
    ) from error
  if not tf.TensorShape(shape).is_compatible_with(array.shape) or not array.ndim:
    raise errors.InputError(
      f"The feature {name!r} must be {wanted}; its shape is {list(array.shape)}."
    )
  return array


def load(path: str, **settings: Any) -> LoadedModel:
  """Loads an export, and runs what its first requests would have to wait for.

  Args:
    path: of the SavedModel.
    **settings: of `engines.load`, for serving_default; other signatures run in TensorFlow.

  Raises:
    InputError: there is no such export, or it has no serving_default.
    SettingError, ExportError: the engine cannot run it.
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
  """Makes features of what users have, all of a batch in one call, and runs serving_default."""

  def __init__(self, loaded: LoadedModel) -> None:
    self.loaded, self.name = loaded, loaded.engine.name

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    loaded = self.loaded
    if loaded.preprocess is not None:
      return loaded.engine.predict_batch(loaded.preprocess(features))
    decoded = {name: loaded.decode(name, list(features[name])) for name in loaded.decoders}
    return loaded.engine.predict_batch({**features, **decoded})


def _other_signatures(described):
  """Those of the model itself beside serving_default, and not what an export has beside them."""
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
  """Runs the export's own warm-up requests, or one that is made up.

  A first call compiles, and no user shall wait for it.
  """
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
    # The function takes the columns by the names that they have in a table.
    received = {
      name: tf.constant(columns[each["input"]]) for name, each in described["raw"].items()
    }
    made = model.preprocess(received)
    return {served_inputs.input_name(name): tensor.numpy() for name, tensor in made.items()}

  decoders = {name: batch(name) for name in described["decodes"]}
  return decoders, preprocess if described.get("raw", {}) else None
