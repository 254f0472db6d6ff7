"""Builds the signatures of an export: the model's own, and those beside them.

    from_bytes       takes the features; those with a decoder as encoded files,
                     {"image": string [n]}
    from_raw         takes what users have, such as the columns of a table or texts,
                     {"age": float64 [n], "job": string [n]}
    from_examples    takes serialised tf.train.Examples, {"examples": string [n]}
    classify         takes serialised tf.train.Examples, {"inputs": string [n]}, and returns
                     {"classes": string [n, k], "scores": float [n, k]}, in the order of the
                     classes, as TensorFlow Serving's classify does

`outputs.preprocessing` decides which of the first two there is, and what an Example has. The
features have their served names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.outputs import preprocessing as preprocessing_lib
from trainer.outputs import served_inputs

FROM_EXAMPLES = "from_examples"
CLASSIFY = "classify"
EXAMPLES = "examples"  # The name of from_examples's input.
CLASSIFY_INPUTS = "inputs"  # The name of classify's input; TensorFlow Serving requires it.


def of_model(
  predict: Callable,
  outputs: Mapping[str, Any],
  inputs: served_inputs.ServedInputs,
  methods: Mapping[str, str],
) -> dict[str, Callable]:
  """Builds the model's own signatures.

  Args:
    predict: tf.function of the features that returns the outputs.
    outputs: the structure of its result: name of a signature → outputs.
    inputs: the signatures' inputs.
    methods: signatures that TensorFlow Serving calls by another method than Predict, see
      `mark_methods`. Such signatures take Examples under the server's name for them.

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
  preprocessing: preprocessing_lib.Preprocessing,
  class_names: Sequence[str] | None,
  from_examples: bool,
) -> dict[str, Callable]:
  """Builds the other signatures. The model's own ones of the same names take precedence.

  Args:
    predict: see `of_model`.
    outputs: see `of_model`.
    inputs: the model's inputs: the features themselves.
    preprocessing: makes the features from the user's data.
    class_names: the names of the classes in order, or None.
    from_examples: whether to build the signatures that take Examples.

  Returns:
    Name → tf.function with one signature.
  """
  main = main_output(outputs)

  def serve(received):
    return _by_name(predict(inputs.pack(preprocessing.to_features(received)))[main])

  def serve_examples(tensors):
    return serve(preprocessing.parse(tensors[EXAMPLES]))

  def classify(tensors):
    return _classified(serve(preprocessing.parse(tensors[CLASSIFY_INPUTS])), class_names)

  built = {}
  if preprocessing.signature:
    built[preprocessing.signature] = _function(serve, preprocessing.spec)
  if from_examples and preprocessing.has_fixed_shapes:
    built[FROM_EXAMPLES] = _function(serve_examples, _strings(EXAMPLES))
    if class_names is not None and _classes(outputs[main]) == len(class_names):
      built[CLASSIFY] = _function(classify, _strings(CLASSIFY_INPUTS))
  return {name: function for name, function in built.items() if name not in outputs}


def main_output(names: Iterable[str]) -> str:
  """Returns the name of the model's signature that the other signatures call."""
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
