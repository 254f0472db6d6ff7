"""EstimatorSpec and TPUEstimatorSpec: all that a program says, in the arguments that it knows."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer.compat.v1.estimator import mode_keys


@dataclasses.dataclass
class EstimatorSpec:
  """What a model_fn for tf.estimator.Estimator returns; see trainer.EstimatorSpec.

  Attributes:
    eval_metric_ops: dict of name → pair of tf.compat.v1.metrics, or Keras metric.
    scaffold: a tf.compat.v1.train.Scaffold.
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

  # What TPUEstimatorSpec has in their place.
  eval_metrics = None
  host_call = None
  scaffold_fn = None

  def __post_init__(self):
    mode_keys.check(self.mode)

  def _replace(self, **changes: Any) -> "EstimatorSpec":
    """As the named tuple had it, that it was."""
    return dataclasses.replace(self, **changes)


@dataclasses.dataclass
class TPUEstimatorSpec:
  """What a model_fn for TPUEstimator returns; see trainer.EstimatorSpec."""

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

  # What EstimatorSpec has in their place.
  eval_metric_ops = None
  scaffold = None
  training_chief_hooks = None

  def __post_init__(self):
    mode_keys.check(self.mode)

  def _replace(self, **changes: Any) -> "TPUEstimatorSpec":
    """As the named tuple had it, that it was."""
    return dataclasses.replace(self, **changes)

  def as_estimator_spec(self) -> EstimatorSpec:
    """The same as an EstimatorSpec, as a program asks for it that runs without TPUEstimator."""
    metric_fn, tensors = self.eval_metrics or (dict, {})
    scaffold = self.scaffold_fn() if self.scaffold_fn else None
    return EstimatorSpec(
      self.mode,
      predictions=self.predictions,
      loss=self.loss,
      train_op=self.train_op,
      eval_metric_ops=(
        metric_fn(**tensors) if isinstance(tensors, Mapping) else metric_fn(*tensors)
      ),
      export_outputs=self.export_outputs,
      scaffold=scaffold,
      training_hooks=self.training_hooks,
      evaluation_hooks=self.evaluation_hooks,
      prediction_hooks=self.prediction_hooks,
    )
