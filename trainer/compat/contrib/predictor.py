"""tf.contrib.predictor: a SavedModel as a function of NumPy values."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors


class _Predictor:
  """A signature of a SavedModel: `predict({"input": [...]})` returns a dict of name → array.

  Attributes:
    feed_tensors, fetch_tensors: the inputs and outputs by name, as specs.
  """

  def __init__(self, export_dir: str, key: str, tags: Any):
    self._loaded = tf.saved_model.load(export_dir, tags)  # owns the signature's variables
    signatures = self._loaded.signatures
    if key not in signatures:
      raise errors.SettingError(
        f"predictor: the SavedModel at {export_dir} has no signature {key!r}; it has "
        f"{', '.join(sorted(signatures))}. Give signature_def_key=."
      )
    self._signature = signatures[key]
    self.feed_tensors: dict[str, Any] = dict(self._signature.structured_input_signature[1])
    self.fetch_tensors: dict[str, Any] = dict(self._signature.structured_outputs)

  def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, np.ndarray]:
    wrong = set(input_dict) ^ set(self.feed_tensors)
    if wrong:
      raise ValueError(
        f"predictor: got {sorted(input_dict)}; the signature takes {sorted(self.feed_tensors)}."
      )
    given = {
      name: tf.convert_to_tensor(value, self.feed_tensors[name].dtype)
      for name, value in input_dict.items()
    }
    return {name: value.numpy() for name, value in self._signature(**given).items()}


def from_saved_model(
  export_dir: Any,
  signature_def_key: str | None = None,
  signature_def: Any = None,
  input_names: Any = None,
  output_names: Any = None,
  tags: Any = None,
  graph: Any = None,
  config: Any = None,
) -> _Predictor:
  """Returns a SavedModel's signature as a function; by default the default signature.

  Raises:
    SettingError: the SavedModel has no such signature, or the arguments name its tensors.
  """
  del graph, config
  if any(given is not None for given in (signature_def, input_names, output_names)):
    raise errors.SettingError(
      "predictor.from_saved_model: signature_def, input_names and output_names name tensors of a "
      "graph; give signature_def_key, the name of a signature."
    )
  tags = tags.split(",") if isinstance(tags, str) else tags
  return _Predictor(tf.compat.as_str(export_dir), signature_def_key or "serving_default", tags)
