"""A model in memory: its engines, its inputs, and its decoders of files.

loaded = loading.load("out/digits/export/1732283000", name="auto", batch_sizes=(1, 128))
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

from trainer import errors
from trainer.cli import formatting
from trainer.outputs.engines import Engine
from trainer.outputs.preprocessing import FROM_BYTES, FROM_RAW
from trainer.serving import arrays, raw_values

DEFAULT = "serving_default"


@dataclasses.dataclass(frozen=True)
class LoadedModel:
  """A model in memory.

  Attributes:
    path: of the SavedModel.
    description: see `outputs.description`.
    engines: signature → its engine, for serving_default, the model's other signatures
      (EstimatorSpec.export_outputs), and from_bytes or from_raw if the export has it.
    decoders: feature → function of encoded files (string [n]) that returns the feature.
    preprocess: function of columns and texts by name that returns the features; or None.
  """

  path: str
  description: Mapping
  engines: Mapping[str, Engine]
  decoders: Mapping[str, Callable]
  preprocess: Callable | None = None

  @property
  def engine(self) -> Engine:
    """The engine of serving_default."""
    return self.engines[DEFAULT]

  @property
  def inputs(self) -> dict[str, dict]:
    """Dict of feature → {"dtype", "shape"}, as serving_default takes them."""
    return self.description["signatures"][DEFAULT]["inputs"]

  @functools.cached_property
  def raw(self) -> dict[str, dict]:
    """Dict of column or text → {"input", "optional", "dtype", "shape"}, as from_raw takes them."""
    told = self.description.get("raw", {})  # the first exports have no such entry
    inputs = self.description["signatures"][FROM_RAW]["inputs"] if told else {}
    return {name: {**each, **inputs[each["input"]]} for name, each in told.items()}

  @property
  def for_users(self) -> str:
    """The signature for files, columns or texts of users, if there is one; else serving_default."""
    return FROM_RAW if self.raw else FROM_BYTES if self.decoders else DEFAULT

  def takes(self, names: Collection[str]) -> dict[str, dict]:
    """Returns `raw` or `inputs`, the model's inputs for an example with values of these names."""
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
    """Decodes files to a feature, as the input pipeline does.

    Raises:
      InputError: the feature has no decoder, or the decoder fails.
    """
    if feature not in self.decoders:
      raise errors.InputError(
        f"The export {self.path} cannot decode files for {feature!r}; it can for "
        f"{', '.join(self.decoders) or 'nothing'}."
      )
    try:
      return self.decoders[feature](tf.constant(encoded, tf.string, [len(encoded)])).numpy()
    except tf.errors.OpError as error:
      raise errors.InputError(f"The decoder fails: {reason(error)}") from error

  def check(self, features: Mapping[str, Any], signature: str = DEFAULT) -> dict[str, np.ndarray]:
    """Converts features to arrays of the signature's types and shapes.

    For from_raw a column may also have its name in the table. There None is a missing value, and a
    number becomes a text in a column of texts.

    Raises:
      InputError: a feature is missing or does not fit, or there is no such signature.
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
      columns = self.raw.values() if signature == FROM_RAW else ()
      optional = {each["input"] for each in columns if each["optional"]}
      of_raw = f" Its signature {FROM_RAW} takes {', '.join(self.raw)}."
      verb = "are" if missing[1:] else "is"
      lacks = f"{', '.join(map(repr, missing))} {verb} missing."
      raise errors.InputError(
        f"The model takes {', '.join(sorted(inputs))}; "
        + (lacks if missing else f"it knows no {unknown[0]!r}.")
        + (" A missing value is null." if optional.intersection(missing) else "")
        + (of_raw if self.raw and signature == DEFAULT else "")
      )
    made = {name: arrays.make(name, features[name], spec) for name, spec in inputs.items()}
    sizes = {name: len(array) for name, array in made.items()}
    if len(set(sizes.values())) > 1:
      shown = ", ".join(f"{size} of {name}" for name, size in sizes.items())
      raise errors.InputError(
        f"Features must be of the same number of examples; there are {shown}."
      )
    if not next(iter(sizes.values()), 1):
      raise errors.InputError("There is no example.")
    return made


def reason(error: tf.errors.OpError) -> str:
  """Returns why a graph failed, without the names of its functions and nodes."""
  names = r"Graph execution.*<stack traces unavailable>|\{\{function_node [^}]*\}\}|\[\[.*|\[Op:.*"
  return formatting.shorten(re.sub(names, "", error.message, flags=re.S).strip(), arrays.SHOWN)
