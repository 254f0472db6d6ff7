"""The user's form of an example, and the model's features from it.

    of_decoders(decoders, inputs)    features, some of them as encoded files: "from_bytes"
    of_raw(raw, inputs)              columns of a table, texts: "from_raw"

Both come from the input_fn, see `trainer.mark_decodable` and `trainer.mark_raw`. In a
tf.train.Example, a feature with a decoder is the encoded file; any other feature, and a column, is
the list of its values. An Example may lack an optional column.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping

import tensorflow as tf

from trainer import errors
from trainer.inputs import decodable
from trainer.outputs import served_inputs

FROM_BYTES = "from_bytes"
FROM_RAW = "from_raw"

_PARALLEL_DECODINGS = 16  # Decode so many files of a batch at the same time.

Tensors = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Preprocessing:
  """Makes features from the user's data.

  Attributes:
    signature: the name of the signature that takes the user's data; None if users have the
      features.
    spec: name → spec of the user's data, with the batch axis.
    to_features: function from tensors like `spec` to the features by name; a tf.function, unless
      users have the features.
    decoders: feature → function of a string scalar that decodes it, traced.
    raw: the input_fn's mark of columns or texts, or None.
  """

  signature: str | None
  spec: Mapping[str, tf.TensorSpec]
  to_features: Callable[[Tensors], Tensors]
  decoders: Mapping[str, Callable] = dataclasses.field(default_factory=dict)
  raw: decodable.Raw | None = None

  @property
  def has_fixed_shapes(self) -> bool:
    """Whether only the batch axis is unknown, as the parser of Examples needs it."""
    return all(None not in spec.shape[1:].as_list() for spec in self.spec.values())

  @property
  def columns(self) -> dict[str, dict]:
    """octet.json's description of columns and texts; {} if users have something else."""
    if self.raw is None:
      return {}
    raw = self.raw
    return {
      name: {"input": spec.name, "optional": name in raw.optional}
      | ({"gaps": dict(raw.gaps[name])} if name in raw.gaps else {})
      | ({"known": list(raw.known[name])} if name in raw.known else {})
      for name, spec in self.spec.items()
    }

  def parse(self, serialised: tf.Tensor) -> Tensors:
    """Parses serialised tf.train.Examples (string [n]) to the user's data."""
    optional = self.raw.optional if self.raw else ()
    stored = {}
    for name, spec in self.spec.items():
      dtype = stored_dtype(spec.dtype)
      missing = "" if dtype == tf.string else float("nan")
      size = spec.shape[1:].num_elements()
      default = [missing] * size if name in optional else None
      stored[name] = tf.io.FixedLenFeature(spec.shape[1:], dtype, default)
    found = tf.io.parse_example(serialised, stored)
    return {name: tf.cast(found[name], spec.dtype) for name, spec in self.spec.items()}


def stored_dtype(dtype: tf.DType) -> tf.DType:
  """Returns the dtype of values in an Example: string, float32 or int64."""
  if dtype == tf.string:
    return tf.string
  return tf.float32 if dtype.is_floating else tf.int64


def of_inputs(inputs: served_inputs.ServedInputs, own: Collection[str]) -> Preprocessing:
  """Returns the preprocessing of a model of features, by the marks of its input_fn.

  Args:
    inputs: the model's inputs.
    own: names of the model's own signatures; they take precedence.

  Raises:
    SettingError: the input_fn's marks do not fit the features.
  """
  if inputs.raw is None or FROM_RAW in own:
    return _of_decoders(inputs.decoders, inputs.by_name)
  return _of_raw(inputs.raw, inputs)


def _of_decoders(decoders, specs):
  functions = {name: _decoder(name, decoder, specs) for name, decoder in decoders.items()}

  def to_features(received):
    decoded = {
      name: decode(function, received[name], specs[name]) for name, function in functions.items()
    }
    return {**received, **decoded}

  if not functions:
    return Preprocessing(None, specs, to_features)
  spec = specs | {name: tf.TensorSpec([None], tf.string, name) for name in functions}
  return Preprocessing(FROM_BYTES, spec, _function(to_features, spec), decoders=functions)


def _decoder(name, decoder, specs):
  """Traces a decoder, and checks its result."""
  if name not in specs:
    raise errors.SettingError(
      f"There is a decoder for the feature {name!r}, and the model takes {', '.join(specs)} "
      "(ExportOptions.decoders, or trainer.mark_decodable in the input_fn)."
    )
  function = _traced(decoder, tf.TensorSpec([], tf.string, "encoded"))
  made = function.structured_outputs
  wanted = specs[name]
  fits = isinstance(made, tf.TensorSpec) or tf.is_tensor(made)
  if not fits or made.dtype != wanted.dtype or made.shape != wanted.shape[1:]:
    raise errors.SettingError(
      f"The decoder of the feature {name!r} gives {made}; the model takes "
      f"{wanted.dtype.name}{wanted.shape[1:].as_list()} of an example."
    )
  return function


def decode(decoder: Callable, encoded: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
  """Decodes a feature for a batch.

  Args:
    decoder: function of a string scalar.
    encoded: string [n].
    spec: the feature's spec, with the batch axis.

  Returns:
    The feature of n examples.
  """
  return tf.map_fn(
    decoder,
    encoded,
    parallel_iterations=_PARALLEL_DECODINGS,
    fn_output_signature=tf.TensorSpec(spec.shape[1:], spec.dtype),
  )


def _column_name(name):
  """Returns a signature's name of a column. Names there are ASCII, and begin with no "_"."""
  made = re.sub(r"\W", "_", name, flags=re.ASCII)
  return f"column{made}" if made.startswith("_") else made


def _of_raw(raw, inputs):
  """Turns the function of columns into a tf.function, and checks names and result."""
  spec = {
    name: tf.TensorSpec(
      [None, *values.shape[1:]],
      tf.string if values.dtype == object else values.dtype,
      _column_name(name),
    )
    for name, values in raw.examples.items()
  }
  if len({each.name for each in spec.values()}) < len(spec):
    raise errors.SettingError(
      "mark_raw: names of a signature have only ASCII letters, digits and underscores; without "
      f"other characters, two of these names are equal: {', '.join(spec)}. Give them other names."
    )
  function = _traced(raw.to_features, spec)
  made = function.structured_outputs
  wanted = inputs.feature_spec
  try:
    tf.nest.assert_same_structure(made, wanted)
    fits = all(
      a.dtype == b.dtype and a.shape.is_compatible_with(b.shape)
      for a, b in zip(tf.nest.flatten(made), tf.nest.flatten(wanted), strict=True)
    )
  except (TypeError, ValueError):
    fits = False
  if not fits:
    raise errors.SettingError(
      f"mark_raw: to_features gives {made}; the model takes {wanted}, as the input_fn gives it."
    )

  def to_features(received):
    return dict(zip(inputs.by_name, tf.nest.flatten(function(received)), strict=True))

  return Preprocessing(FROM_RAW, spec, _function(to_features, spec), raw=raw)


def _function(to_features, spec):
  return tf.function(to_features, input_signature=[spec], autograph=False)


def _traced(function, spec):
  """Traces a user's function, once.

  A tf.function would trace it again for each signature and when TensorFlow saves it: each trace
  would make look-up tables of its own, and no export knows those of the last one.
  """
  return _function(function, spec).get_concrete_function()
