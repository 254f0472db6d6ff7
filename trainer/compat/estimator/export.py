"""tf.estimator.export: the inputs of a SavedModel (receivers) and its outputs."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer.internals.tensorflow_internals import EXPORT_OUTPUTS

__all__ = [
  "ClassificationOutput",
  "EvalOutput",
  "ExportOutput",
  "PredictOutput",
  "RegressionOutput",
  "ServingInputReceiver",
  "TensorServingInputReceiver",
  "build_parsing_serving_input_receiver_fn",
  "build_raw_serving_input_receiver_fn",
]

v1 = tf.compat.v1

ExportOutput = EXPORT_OUTPUTS.ExportOutput
ClassificationOutput = EXPORT_OUTPUTS.ClassificationOutput
PredictOutput = EXPORT_OUTPUTS.PredictOutput
RegressionOutput = EXPORT_OUTPUTS.RegressionOutput


def _by_name(tensors: Any, name: str) -> Any:
  return tensors if isinstance(tensors, Mapping) else {name: tensors}


@dataclasses.dataclass
class ServingInputReceiver:
  """The result of a serving_input_receiver_fn: features, and the placeholders behind them.

  A single tensor becomes a dict: "feature" names the features, and "input" the served tensor.
  """

  features: Any
  receiver_tensors: Any
  receiver_tensors_alternatives: Mapping[str, Any] | None = None

  def __post_init__(self):
    self.features = _by_name(self.features, "feature")
    self.receiver_tensors = _by_name(self.receiver_tensors, "input")

  def __iter__(self):
    return iter((self.features, self.receiver_tensors, self.receiver_tensors_alternatives))


class TensorServingInputReceiver(ServingInputReceiver):
  """As ServingInputReceiver, for a single tensor as features."""

  def __post_init__(self):
    self.receiver_tensors = _by_name(self.receiver_tensors, "input")


def build_raw_serving_input_receiver_fn(
  features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
  """Returns a serving_input_receiver_fn for unserialized features.

  Args:
    features: dict of name → tensor (or TensorSpec) with the served shape and dtype.
    default_batch_size: the served batch size; None for any size.
  """
  specs = {name: _spec_of(feature) for name, feature in features.items()}

  def serving_input_receiver_fn() -> ServingInputReceiver:
    placeholders = {
      name: v1.placeholder(dtype, _with_batch(shape, default_batch_size), name)
      for name, (shape, dtype) in specs.items()
    }
    return ServingInputReceiver(placeholders, placeholders)

  return serving_input_receiver_fn


def build_parsing_serving_input_receiver_fn(
  feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
  """Returns a serving_input_receiver_fn for serialized tf.train.Examples.

  Args:
    feature_spec: as tf.io.parse_example takes it.
    default_batch_size: the served batch size; None for any size.
  """

  def serving_input_receiver_fn() -> ServingInputReceiver:
    serialized = v1.placeholder(tf.string, [default_batch_size], "input_example_tensor")
    features = tf.io.parse_example(serialized, feature_spec)
    return ServingInputReceiver(features, {"examples": serialized})

  return serving_input_receiver_fn


def _spec_of(feature: Any) -> tuple[tf.TensorShape, tf.DType]:
  if not isinstance(feature, tf.Tensor | tf.TensorSpec):
    feature = tf.convert_to_tensor(feature)
  return feature.shape, feature.dtype


def _with_batch(shape: tf.TensorShape, batch: int | None) -> list[int | None]:
  return [batch, *shape.as_list()[1:]]


class EvalOutput(ExportOutput):
  """Accepted for programs that make it. Octet's SavedModels serve predictions alone."""

  def __init__(self, loss: Any = None, predictions: Any = None, metrics: Any = None):
    self.loss, self.predictions, self.metrics = loss, predictions, metrics


def signature(output: ExportOutput) -> dict[str, tf.Tensor]:
  """Returns a dict of name → tensor: the outputs of a signature."""
  if isinstance(output, ClassificationOutput):
    found = {"scores": output.scores, "classes": output.classes}
    return {name: tensor for name, tensor in found.items() if tensor is not None}
  if isinstance(output, RegressionOutput):
    return {"outputs": output.value}
  return dict(output.outputs)


def method(output: Any) -> str | None:
  """Returns the part of TensorFlow Serving's interface that an output answers besides predict."""
  if isinstance(output, ClassificationOutput):
    return "classify"
  return "regress" if isinstance(output, RegressionOutput) else None
