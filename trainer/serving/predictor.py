"""A model that is loaded once and predicts for whoever asks.

Example:
    predictor = Predictor("out/digits/export")                  # the newest export there
    predictor.predict_batch({"image": images})["probabilities"]
    predictor.predict_batch({"image": predictor.decode("image", [file_content])})
    predictor.reload_if_newer()                                 # while others predict

    Predictor.of_checkpoint(estimator)  # of a checkpoint, by way of an export
"""

import dataclasses
import os
import re
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.outputs import description as description_lib
from trainer.outputs import engines, signatures, warm_up

DEFAULT = "serving_default"


def newest_export(path: str) -> str:
  """The SavedModel at a path, or the newest of those whose names are numbers below it.

  Raises:
    InputError: there is none.
  """
  if tf.io.gfile.exists(os.path.join(path, "saved_model.pb")):
    return path
  names = tf.io.gfile.listdir(path) if tf.io.gfile.isdir(path) else []
  # Others are being written, or are the folders of exporters.
  found = [name.rstrip("/") for name in names if name.rstrip("/").isdigit()]
  if not found:
    below = sorted(name.rstrip("/") for name in names if not name.startswith("."))
    raise errors.InputError(
      f"There is no export in {path}: expected a SavedModel, or a folder of SavedModels that are "
      f"named by numbers; it has {', '.join(below[:5]) or 'nothing'}."
    )
  return os.path.join(path, max(found, key=int))


@dataclasses.dataclass(frozen=True)
class Loaded:
  """A model in memory.

  Attributes:
    path: of the SavedModel.
    description: see `outputs.description`.
    engines: dict of signature → what runs it: of serving_default, and of those that the model has
      beside it (EstimatorSpec.export_outputs).
    decoders: dict of feature → function of a string tensor [n] that returns features.
  """

  path: str
  description: Mapping
  engines: Mapping[str, engines.Engine]
  decoders: Mapping[str, Callable]

  @property
  def engine(self) -> engines.Engine:
    """What runs serving_default."""
    return self.engines[DEFAULT]

  @property
  def inputs(self) -> dict[str, dict]:
    """dict of feature → {"dtype", "shape"}, as serving_default takes them."""
    return self.description["signatures"][DEFAULT]["inputs"]

  @property
  def outputs(self) -> dict[str, dict]:
    """dict of output → {"dtype", "shape"}."""
    return self.description["signatures"][DEFAULT]["outputs"]

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

    Raises:
      InputError: says which feature is missing or does not fit; or there is no such signature.
    """
    if signature not in self.engines:
      raise errors.InputError(
        f"The model has no signature {signature!r} of its own; it has {', '.join(self.engines)}."
      )
    inputs = self.description["signatures"][signature]["inputs"]
    unknown = sorted(set(features) - set(inputs))
    missing = sorted(set(inputs) - set(features))
    if unknown or missing:
      raise errors.InputError(
        f"The model takes {', '.join(sorted(inputs))}; "
        + (f"{missing[0]!r} is missing." if missing else f"it knows no {unknown[0]!r}.")
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
      if (
        array.dtype.kind in "fV"
        and tf.as_dtype(dtype).is_integer
        and not np.array_equal(array, array.astype(target))
      ):
        raise ValueError("it has values that are no integers")
      array = array.astype(target, copy=False)
  except (ValueError, TypeError, OverflowError) as error:
    raise errors.InputError(
      f"The feature {name!r} must be {wanted}: {_short(str(error))}."
    ) from error
  fits = shape is None or (
    array.ndim == len(shape)
    and all(size in (None, found) for size, found in zip(shape, array.shape, strict=True))
  )
  if not fits or not array.ndim:
    raise errors.InputError(
      f"The feature {name!r} must be {wanted}; its shape is {list(array.shape)}."
    )
  return array


class Predictor:
  """Predicts with the newest export of a folder, or with one export. Threads may share it.

  Args:
    source: a SavedModel's folder, or one of exports that are named by numbers.
    engine: see `engines`.
    batch_sizes: examples of a call, for which the engine is chosen.
    precision: "float32"; "bfloat16" with the engine "openvino".
    threads: of one call; None for all.

  Raises:
    InputError: there is no export.
    SettingError: the engine cannot be had.
  """

  def __init__(
    self,
    source: str,
    engine: str = "auto",
    *,
    batch_sizes: Sequence[int] = (1, 128),
    precision: str = "float32",
    threads: int | None = None,
  ):
    engines.check_name(engine, precision)
    self._source = os.fspath(source)
    self._settings = dict(
      name=engine, batch_sizes=tuple(batch_sizes), precision=precision, threads=threads
    )
    self._loading = threading.Lock()
    self._loaded = self._load(newest_export(self._source))

  @classmethod
  def of_checkpoint(
    cls, estimator: Any, checkpoint_path: str | None = None, **settings
  ) -> "Predictor":
    """A Predictor of a checkpoint of an Estimator; by default of the newest.

    Args:
      estimator: an Estimator that has seen an input_fn, which says what the features are.
      checkpoint_path: the checkpoint.
      **settings: see Predictor.
    """
    with tempfile.TemporaryDirectory() as folder:
      path = estimator.export_saved_model(folder, checkpoint_path=checkpoint_path)
      return cls(path, **settings)

  @property
  def loaded(self) -> Loaded:
    """The model as it is now. Who makes several calls that belong together holds on to it."""
    return self._loaded

  def predict_batch(
    self, features: Mapping[str, Any], signature: str = DEFAULT
  ) -> dict[str, np.ndarray]:
    """The outputs by name, of features by name: arrays or lists whose first axis is the batch.

    Args:
      features: the batch.
      signature: serving_default, or another of the model's own (EstimatorSpec.export_outputs).

    Raises:
      InputError: the features are not what the model takes, or there is no such signature.
    """
    loaded = self._loaded
    checked = loaded.check(features, signature)
    return loaded.engines[signature].predict_batch(checked)

  def decode(self, feature: str, encoded: Sequence[bytes]) -> np.ndarray:
    """See `Loaded.decode`."""
    return self._loaded.decode(feature, encoded)

  def reload_if_newer(self) -> bool:
    """Loads the newest export, if it is not the one that is loaded; says whether it did.

    Calls that are under way end with the former model, later ones get the new one.

    Raises:
      InputError, SettingError, ExportError: it cannot be used; the former stays.
    """
    with self._loading:
      path = newest_export(self._source)
      if path == self._loaded.path:
        return False
      self._loaded = self._load(path)
      return True

  def _load(self, path):
    described = description_lib.read(path)
    if DEFAULT not in described["signatures"]:
      raise errors.InputError(
        f"{path} has no signature {DEFAULT!r}; it has "
        f"{', '.join(described['signatures']) or 'none'}."
      )
    made = {DEFAULT: engines.load(path, **self._settings)}
    for signature in _other_signatures(described["signatures"]):
      made[signature] = engines.load(path, "tensorflow", signature=signature)
    loaded = Loaded(path, described, made, _batch_decoders(path, described))
    _warm_up(loaded)
    logging.info("Loaded %s with the engine %s", path, loaded.engine.name)
    return loaded


def _other_signatures(found):
  """Those of the model itself beside serving_default: they take the same."""
  added = (signatures.FROM_BYTES, signatures.FROM_EXAMPLES, signatures.CLASSIFY)
  return [
    name
    for name, parts in found.items()
    if name != DEFAULT and (name not in added or parts["inputs"] == found[DEFAULT]["inputs"])
  ]


def _warm_up(loaded):
  """Runs the requests that the export has for that, or one that is made up: a first call compiles,
  and nobody shall wait for it.
  """
  requests = warm_up.read(loaded.path) or _made_up_request(loaded)
  for signature, inputs in requests:
    if signature in loaded.engines:
      loaded.engines[signature].predict_batch(inputs)
    elif signature == signatures.FROM_BYTES:
      for feature in set(loaded.decoders) & set(inputs):
        loaded.decode(feature, list(inputs[feature]))


def _made_up_request(loaded):
  """A list of one request of zeros; empty for texts and features of a free size."""
  if any(
    spec["dtype"] == "string" or not spec["shape"] or None in spec["shape"][1:]
    for spec in loaded.inputs.values()
  ):
    return []
  zeros = {
    name: np.zeros([1, *spec["shape"][1:]], tf.as_dtype(spec["dtype"]).as_numpy_dtype)
    for name, spec in loaded.inputs.items()
  }
  return [(DEFAULT, zeros)]


def _batch_decoders(path, described):
  """dict of feature → function of a string tensor [n]."""
  if not described["decodes"]:
    return {}
  model = tf.saved_model.load(path)
  inputs = described["signatures"][DEFAULT]["inputs"]

  def batch(name):
    spec = tf.TensorSpec(inputs[name]["shape"], inputs[name]["dtype"])
    decode = tf.function(
      lambda encoded: signatures.decode(model.decoders[name], encoded, spec),
      input_signature=[tf.TensorSpec([None], tf.string)],
      autograph=False,
    )
    return decode.get_concrete_function()

  return {name: batch(name) for name in described["decodes"]}
