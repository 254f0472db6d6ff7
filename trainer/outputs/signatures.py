"""Builds the signatures that an export has beside the model's own.

    from_bytes       takes the features; those with a decoder as encoded files,
                     {"image": string [n]}
    from_examples    takes serialised tf.train.Examples, {"examples": string [n]}
    classify         takes serialised tf.train.Examples, {"inputs": string [n]}, and returns
                     {"classes": string [n, k], "scores": float [n, k]}, in the order of the
                     classes, as TensorFlow Serving's classify does

In an Example, a feature with a decoder is the encoded file, and any other feature is the list of
its values. The features have the names under which they are served. The decoders are the input_fn's
own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer import errors

FROM_BYTES = "from_bytes"
FROM_EXAMPLES = "from_examples"
CLASSIFY = "classify"
EXAMPLES = "examples"  # the name of from_examples's input
CLASSIFY_INPUTS = "inputs"  # the name of classify's input; TensorFlow Serving requires it

_PARALLEL_DECODINGS = 16  # files of a batch that are decoded at the same time


def build(
  predict: Callable,
  outputs: Mapping[str, Any],
  feature_spec: Any,
  decoders: Mapping[str, Callable],
  class_names: Sequence[str] | None = None,
  from_examples: bool = True,
) -> dict[str, Callable]:
  """Builds the signatures. The model's own signatures of the same names take precedence.

  Args:
    predict: tf.function of the features that returns the outputs.
    outputs: the structure of what it returns: name of a signature → outputs.
    feature_spec: nest of tf.TensorSpec with unknown batch size, named as they are served.
    decoders: feature → decoder, see `trainer.mark_decodable`.
    class_names: the names of the classes in order, or None.
    from_examples: whether to build the signatures that take Examples.

  Returns:
    Name → tf.function with one signature.

  Raises:
    SettingError: a decoder belongs to no feature, or returns another shape or dtype.
  """
  specs = {spec.name: spec for spec in tf.nest.flatten(feature_spec)}
  decoders = {name: build_decoder(name, decoder, specs) for name, decoder in decoders.items()}
  main = _main_output(outputs)

  def serve(by_name):
    features = tf.nest.pack_sequence_as(feature_spec, [by_name[name] for name in specs])
    found = predict(features)[main]
    return found if isinstance(found, dict) else {"output": found}

  built = {}
  if decoders:
    received = {
      name: tf.TensorSpec([None], tf.string, name) if name in decoders else spec
      for name, spec in specs.items()
    }
    built[FROM_BYTES] = _function(
      lambda tensors: serve(
        {
          name: decode(decoders[name], tensor, specs[name]) if name in decoders else tensor
          for name, tensor in tensors.items()
        }
      ),
      received,
    )
  if from_examples and all(None not in spec.shape[1:].as_list() for spec in specs.values()):

    def parse_examples(serialised):
      return parse(serialised, specs, decoders)

    built[FROM_EXAMPLES] = _function(
      lambda tensors: serve(parse_examples(tensors[EXAMPLES])),
      {EXAMPLES: tf.TensorSpec([None], tf.string, EXAMPLES)},
    )
    count = _classes(outputs[main])
    if class_names is not None and count == len(class_names):
      built[CLASSIFY] = _function(
        lambda tensors: _classified(serve(parse_examples(tensors[CLASSIFY_INPUTS])), class_names),
        {CLASSIFY_INPUTS: tf.TensorSpec([None], tf.string, CLASSIFY_INPUTS)},
      )
  return {name: function for name, function in built.items() if name not in outputs}


def mark_methods(saved_model: str, methods: Mapping[str, str]) -> None:
  """Marks signatures of a SavedModel for TensorFlow Serving's other methods than Predict.

  Args:
    saved_model: its folder.
    methods: dict of signature → "classify" or "regress"; others are "predict".
  """
  if methods:
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(saved_model)
    for name, method in methods.items():
      updater.replace_method_name(name, f"tensorflow/serving/{method}")
    updater.save()


def build_decoder(name: str, decoder: Callable, specs: Mapping[str, tf.TensorSpec]) -> Callable:
  """Turns a decoder into a tf.function, and checks what it returns.

  Args:
    name: the feature that it decodes.
    decoder: function of a string scalar.
    specs: name → spec of each feature, with the batch axis.

  Returns:
    A tf.function of a string scalar that returns the feature of one example.

  Raises:
    SettingError: there is no such feature, or the decoder returns another shape or dtype.
  """
  if name not in specs:
    raise errors.SettingError(
      f"A decoder is of the feature {name!r}, and the model takes {', '.join(specs)} "
      "(ExportOptions.decoders, or trainer.mark_decodable in the input_fn)."
    )
  function = tf.function(
    decoder, input_signature=[tf.TensorSpec([], tf.string, "encoded")], autograph=False
  )
  made = function.get_concrete_function().structured_outputs
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


def parse(
  serialised: tf.Tensor, specs: Mapping[str, tf.TensorSpec], decoders: Mapping[str, Callable]
) -> dict[str, tf.Tensor]:
  """Parses and decodes serialised tf.train.Examples.

  Args:
    serialised: string [n].
    specs: name → spec of each feature, with the batch axis.
    decoders: feature → decoder.

  Returns:
    Name → feature of n examples.
  """
  stored = {
    name: tf.io.FixedLenFeature([], tf.string)
    if name in decoders
    else tf.io.FixedLenFeature(spec.shape[1:], stored_dtype(spec.dtype))
    for name, spec in specs.items()
  }
  found = tf.io.parse_example(serialised, stored)
  return {
    name: decode(decoders[name], found[name], spec)
    if name in decoders
    else tf.cast(found[name], spec.dtype)
    if found[name].dtype != spec.dtype
    else found[name]
    for name, spec in specs.items()
  }


def stored_dtype(dtype: tf.DType) -> tf.DType:
  """Returns the dtype in which an Example stores values: string, float32 or int64."""
  if dtype == tf.string:
    return tf.string
  return tf.float32 if dtype.is_floating else tf.int64


def _function(function, received):
  return tf.function(function, input_signature=[received], autograph=False)


def _main_output(outputs):
  return "serving_default" if "serving_default" in outputs else next(iter(outputs))


def _classes(output):
  """Returns the number of classes in an output's probabilities, or None."""
  probabilities = output.get("probabilities") if isinstance(output, dict) else None
  return (
    probabilities.shape[1] if probabilities is not None and probabilities.shape.rank == 2 else None
  )


def _classified(outputs, class_names):
  scores = outputs["probabilities"]
  names = tf.tile(tf.constant([list(class_names)]), [tf.shape(scores)[0], 1])
  return {"classes": names, "scores": scores}
