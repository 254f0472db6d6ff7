"""Builds the signatures of an export: the model's own, and those beside them.

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

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.outputs import served_inputs

FROM_BYTES = "from_bytes"
FROM_EXAMPLES = "from_examples"
CLASSIFY = "classify"
EXAMPLES = "examples"  # the name of from_examples's input
CLASSIFY_INPUTS = "inputs"  # the name of classify's input; TensorFlow Serving requires it

_PARALLEL_DECODINGS = 16  # files of a batch that are decoded at the same time


def of_model(
  predict: Callable,
  outputs: Mapping[str, Any],
  inputs: served_inputs.ServedInputs,
  methods: Mapping[str, str],
) -> dict[str, Callable]:
  """Builds the model's own signatures.

  Args:
    predict: tf.function of the features that returns the outputs.
    outputs: the structure of what it returns: name of a signature → outputs.
    inputs: what the signatures take.
    methods: signatures that TensorFlow Serving calls by another method than Predict, see
      `mark_methods`. They take Examples under the name that the server gives them.

  Returns:
    Name → tf.function with one signature.
  """

  def build(name):
    def serve(received):
      return _by_name(predict(inputs.to_features(received))[name])

    if name not in methods:
      return _function(serve, inputs.spec)
    (examples,) = tf.nest.flatten(inputs.spec)
    named = tf.TensorSpec(examples.shape, examples.dtype, CLASSIFY_INPUTS)
    return _function(
      lambda received: serve(tf.nest.pack_sequence_as(inputs.spec, [received])), named
    )

  return {name: build(name) for name in outputs}


def beside_model(
  predict: Callable,
  outputs: Mapping[str, Any],
  inputs: served_inputs.ServedInputs,
  decoders: Mapping[str, Callable],
  class_names: Sequence[str] | None,
  from_examples: bool,
) -> dict[str, Callable]:
  """Builds the other signatures. The model's own ones of the same names take precedence.

  Args:
    predict: see `of_model`.
    outputs: see `of_model`.
    inputs: what the model takes: the features themselves.
    decoders: feature → what `build_decoder` made of its decoder.
    class_names: the names of the classes in order, or None.
    from_examples: whether to build the signatures that take Examples.

  Returns:
    Name → tf.function with one signature.
  """
  main, specs = main_output(outputs), inputs.by_name

  def serve(by_name):
    return _by_name(predict(inputs.pack(by_name))[main])

  def serve_bytes(tensors):
    encoded = {name: decode(decoders[name], tensors[name], specs[name]) for name in decoders}
    return serve({**tensors, **encoded})

  def serve_examples(tensors):
    return serve(parse(tensors[EXAMPLES], specs, decoders))

  def classify(tensors):
    return _classified(serve(parse(tensors[CLASSIFY_INPUTS], specs, decoders)), class_names)

  built = {}
  if decoders:
    built[FROM_BYTES] = _function(serve_bytes, specs | _strings(*decoders))
  if from_examples and all(None not in spec.shape[1:].as_list() for spec in specs.values()):
    built[FROM_EXAMPLES] = _function(serve_examples, _strings(EXAMPLES))
    if class_names is not None and _classes(outputs[main]) == len(class_names):
      built[CLASSIFY] = _function(classify, _strings(CLASSIFY_INPUTS))
  return {name: function for name, function in built.items() if name not in outputs}


def main_output(names: Iterable[str]) -> str:
  """Returns the name of the model's own signature that the others are built on."""
  names = list(names)
  return "serving_default" if "serving_default" in names else names[0]


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


def _strings(*names):
  return {name: tf.TensorSpec([None], tf.string, name) for name in names}


def _by_name(output):
  return output if isinstance(output, dict) else {"output": output}


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
