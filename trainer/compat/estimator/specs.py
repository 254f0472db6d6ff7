"""EstimatorSpec and TPUEstimatorSpec, with the arguments that programs know."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer import ModeKeys

_MODES = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)


def _check(spec: Any) -> None:
  """Checks a new spec as 2.15 does.

  Raises:
    ValueError: a value that the mode needs is None, or the loss is no scalar.
    TypeError: a value is no tensor.
  """
  mode = spec.mode
  if mode not in _MODES:
    raise ValueError(f"Mode not recognized: {mode!r}; expected one of {', '.join(_MODES)}.")
  if spec.train_op is None and mode == ModeKeys.TRAIN:
    raise ValueError("Missing train_op: mode TRAIN needs one.")
  if spec.loss is None and mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
    raise ValueError(f"Missing loss: mode {mode.upper()} needs one.")
  if spec.predictions is None and mode == ModeKeys.PREDICT:
    raise ValueError("Missing predictions: mode PREDICT needs some.")
  if spec.loss is not None:
    _check_tensor(spec.loss, "loss")
    if tf.TensorShape(spec.loss.shape).num_elements() not in (None, 1):
      raise ValueError(f"Loss must be scalar, given: {spec.loss}")
  if isinstance(spec.predictions, dict):
    for name, value in spec.predictions.items():
      _check_tensor(value, f"predictions[{name}]")
  elif spec.predictions is not None:
    _check_tensor(spec.predictions, "predictions")


def _check_tensor(given: Any, name: str) -> None:
  if not tf.is_tensor(given):
    raise TypeError(f"{name} must be Tensor, given: {given!r}")


def _check_metrics(given: Any) -> None:
  if given is not None and not isinstance(given, Mapping):
    raise TypeError(f"eval_metric_ops must be a dict, given: {given!r}")
  for name, value in (given or {}).items():
    if isinstance(value, list) or (isinstance(value, tuple) and len(value) != 2):
      raise TypeError(
        "Values of eval_metric_ops must be (metric_value, update_op) tuples, given: "
        f"{value!r} for key: {name}"
      )


class _Spec:
  """The common part of both specs. Each has the fields of the other, without values."""

  def __post_init__(self):
    _check(self)
    _check_metrics(self.eval_metric_ops)

  def _replace(self, **changes: Any) -> Any:
    """As the method of 2.15's named tuple."""
    made = dataclasses.replace(self, **changes)
    if "host_call" not in changes:  # EstimatorSpec has no such argument
      made.host_call = self.host_call
    return made


@dataclasses.dataclass
class EstimatorSpec(_Spec):
  """The result of a model_fn for tf.estimator.Estimator; see trainer.EstimatorSpec.

  Attributes:
    eval_metric_ops: dict of name → pair of tf.compat.v1.metrics, or Keras metric.
    scaffold: a tf.compat.v1.train.Scaffold.
    host_call: that of the TPUEstimatorSpec behind this one.

  Raises:
    ValueError: a value that the mode needs is None, or the loss is no scalar.
    TypeError: a value is no tensor, or no pair of metrics.
  """

  mode: str
  predictions: Any = None
  loss: Any = None
  train_op: Any = None
  eval_metric_ops: Mapping[str, Any] | None = None
  export_outputs: Mapping[str, Any] | None = None
  training_chief_hooks: Sequence[Any] | None = None
  training_hooks: Sequence[Any] | None = None
  scaffold: Any = None
  evaluation_hooks: Sequence[Any] | None = None
  prediction_hooks: Sequence[Any] | None = None

  eval_metrics = host_call = scaffold_fn = None


@dataclasses.dataclass
class TPUEstimatorSpec(_Spec):
  """The result of a model_fn for TPUEstimator; see trainer.EstimatorSpec.

  Raises:
    ValueError, TypeError: as EstimatorSpec.
  """

  mode: str
  predictions: Any = None
  loss: Any = None
  train_op: Any = None
  eval_metrics: tuple[Callable, Any] | None = None
  export_outputs: Mapping[str, Any] | None = None
  scaffold_fn: Callable | None = None
  host_call: tuple[Callable, Any] | None = None
  training_hooks: Sequence[Any] | None = None
  evaluation_hooks: Sequence[Any] | None = None
  prediction_hooks: Sequence[Any] | None = None

  eval_metric_ops = scaffold = training_chief_hooks = None

  def as_estimator_spec(self) -> EstimatorSpec:
    """Returns the same as an EstimatorSpec, for programs that run without TPUEstimator."""
    metric_fn, tensors = self.eval_metrics or (dict, {})
    is_dict = isinstance(tensors, Mapping)
    both = {field.name for field in dataclasses.fields(EstimatorSpec)} & vars(self).keys()
    made = EstimatorSpec(
      **{name: getattr(self, name) for name in both},
      eval_metric_ops=metric_fn(**tensors) if is_dict else metric_fn(*tensors),
      scaffold=self.scaffold_fn() if self.scaffold_fn else None,
    )
    made.host_call = self.host_call
    return made
