"""tf.estimator.export: the inputs of a SavedModel (receivers) and its outputs."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


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


class ExportOutput:
  """A signature of a SavedModel.

  Attributes:
    method: the part of TensorFlow Serving's interface that the signature answers, besides predict.
  """

  method: str | None = None

  def signature(self) -> dict[str, tf.Tensor]:
    """Returns a dict of name → tensor: the signature's outputs."""
    raise NotImplementedError


class PredictOutput(ExportOutput):
  """The signature of a model's predictions.

  Args:
    outputs: a tensor, or dict of name → tensor.
  """

  def __init__(self, outputs: Any):
    self.outputs = outputs if isinstance(outputs, Mapping) else {"output": outputs}

  def signature(self) -> dict[str, tf.Tensor]:
    return dict(self.outputs)


class ClassificationOutput(ExportOutput):
  """The signature of a classifier: scores, classes (strings), or both, [batch, classes]."""

  method = "classify"

  def __init__(self, scores: tf.Tensor | None = None, classes: tf.Tensor | None = None):
    if scores is None and classes is None:
      raise ValueError("ClassificationOutput: give scores, classes or both.")
    if scores is not None and not scores.dtype.is_floating:
      raise ValueError(f"ClassificationOutput: scores must be floats; got {scores}.")
    if classes is not None and classes.dtype != tf.string:
      raise ValueError(f"ClassificationOutput: classes must be strings; got {classes}.")
    self.scores, self.classes = scores, classes

  def signature(self) -> dict[str, tf.Tensor]:
    found = {"scores": self.scores, "classes": self.classes}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


class RegressionOutput(ExportOutput):
  """The signature of a regression: a float for each example."""

  method = "regress"

  def __init__(self, value: tf.Tensor):
    if not value.dtype.is_floating:
      raise ValueError(f"RegressionOutput: the value must be a float; got {value}.")
    self.value = value

  def signature(self) -> dict[str, tf.Tensor]:
    return {"outputs": self.value}


class EvalOutput(ExportOutput):
  """Accepted for programs that make it. Octet's SavedModels serve predictions alone."""

  def __init__(self, loss: Any = None, predictions: Any = None, metrics: Any = None):
    self.loss, self.predictions, self.metrics = loss, predictions, metrics
