"""Canned estimators of TensorFlow 2: those of `trainer.compat.v1`, by optimizers of Keras.

Their loss is a mean over the batch, a named optimizer is one of `tf.keras.optimizers.legacy`, and
slots are called as in 2.15's checkpoints: `training/Adagrad/dnn/logits/kernel/accumulator`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from trainer.compat.v1 import legacy_optimizers
from trainer.compat.v1.estimator import canned, heads
from trainer.compat.v1.estimator.canned.base import Face

v1 = tf.compat.v1


def _classification(n_classes: int, *settings: Any) -> heads.Head:
  """The head of a classifier of so many classes."""
  weight_column, label_vocabulary, reduction = settings
  if n_classes == 2:
    return heads.BinaryClassHead(weight_column, None, label_vocabulary, reduction)
  return heads.MultiClassHead(n_classes, weight_column, label_vocabulary, reduction)


def _minimizer(
  make: Callable[[], Any], of: str | None = None, counts: bool = True, **of_v1: Any
) -> Callable[[tf.Tensor], Any]:
  """A function of a loss that makes the train_op; see `trainer.compat.v1.estimator.canned.base`."""
  del of_v1  # names that a tf.compat.v1 optimizer's slots have

  def minimize(loss: tf.Tensor) -> Any:
    optimizer = make()
    if isinstance(optimizer, keras.optimizers.Optimizer):
      optimizer = legacy_optimizers.like(optimizer)
    if not isinstance(optimizer, legacy_optimizers.Optimizer):
      raise ValueError(
        f"The given object is not a tf.keras.optimizers.Optimizer instance. Given: {optimizer!r}. "
        "Estimators of tf.compat.v1.estimator take optimizers of tf.compat.v1.train."
      )
    if counts:
      optimizer.iterations = v1.train.get_global_step()
    variables = v1.trainable_variables(of) if of else v1.trainable_variables()
    with v1.name_scope("training/"):
      return optimizer.minimize(loss, variables)

  return minimize


_FACE = Face(
  reduction=heads.MEAN,
  classification=_classification,
  optimizers={
    name: legacy_optimizers.KINDS[{"RMSProp": "RMSprop"}.get(name, name)]
    for name in ("Adagrad", "Adam", "Ftrl", "RMSProp", "SGD")
  },
  minimizer=_minimizer,
  tells_mean=False,
  dnn_rate=None,
)


class BaselineEstimator(canned.BaselineEstimator):
  """A bias alone, which learns the mean of the labels."""

  face = _FACE


class BaselineClassifier(canned.BaselineClassifier):
  """The frequencies of the classes."""

  face = _FACE


class BaselineRegressor(canned.BaselineRegressor):
  """The mean of the labels."""

  face = _FACE


class DNNEstimator(canned.DNNEstimator):
  """A network of dense layers, with a head of its own."""

  face = _FACE

  def __init__(
    self,
    head: heads.Head,
    hidden_units: Sequence[int],
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    optimizer: Any = "Adagrad",
    activation_fn: Any = tf.nn.relu,
    dropout: float | None = None,
    config: Any = None,
    warm_start_from: Any = None,
    batch_norm: bool = False,
  ):
    super().__init__(
      head,
      hidden_units,
      feature_columns,
      model_dir,
      optimizer,
      activation_fn,
      dropout,
      config=config,
      warm_start_from=warm_start_from,
      batch_norm=batch_norm,
    )


class DNNClassifier(canned.DNNClassifier):
  """A classifier of dense layers."""

  face = _FACE


class DNNRegressor(canned.DNNRegressor):
  """A regression by dense layers."""

  face = _FACE


class LinearEstimator(canned.LinearEstimator):
  """A linear model, with a head of its own."""

  face = _FACE

  def __init__(
    self,
    head: heads.Head,
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    optimizer: Any = "Ftrl",
    config: Any = None,
    sparse_combiner: str = "sum",
    warm_start_from: Any = None,
  ):
    super().__init__(
      head,
      feature_columns,
      model_dir,
      optimizer,
      config,
      sparse_combiner=sparse_combiner,
      warm_start_from=warm_start_from,
    )


class LinearClassifier(canned.LinearClassifier):
  """A linear classifier."""

  face = _FACE


class LinearRegressor(canned.LinearRegressor):
  """A linear regression."""

  face = _FACE


class DNNLinearCombinedEstimator(canned.DNNLinearCombinedEstimator):
  """A linear model and dense layers together, each with an optimizer of its own."""

  face = _FACE

  def __init__(
    self,
    head: heads.Head,
    model_dir: str | None = None,
    linear_feature_columns: Sequence[Any] | None = None,
    linear_optimizer: Any = "Ftrl",
    dnn_feature_columns: Sequence[Any] | None = None,
    dnn_optimizer: Any = "Adagrad",
    dnn_hidden_units: Sequence[int] | None = None,
    dnn_activation_fn: Any = tf.nn.relu,
    dnn_dropout: float | None = None,
    config: Any = None,
    batch_norm: bool = False,
    linear_sparse_combiner: str = "sum",
  ):
    super().__init__(
      head,
      model_dir,
      linear_feature_columns,
      linear_optimizer,
      dnn_feature_columns,
      dnn_optimizer,
      dnn_hidden_units,
      dnn_activation_fn,
      dnn_dropout,
      config=config,
      batch_norm=batch_norm,
      linear_sparse_combiner=linear_sparse_combiner,
    )


class DNNLinearCombinedClassifier(canned.DNNLinearCombinedClassifier):
  """A classifier by both."""

  face = _FACE


class DNNLinearCombinedRegressor(canned.DNNLinearCombinedRegressor):
  """A regression by both."""

  face = _FACE
