"""Canned estimators of dense layers and a linear model together."""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.v1 import summary
from trainer.compat.v1.estimator import heads
from trainer.compat.v1.estimator.canned.base import Canned
from trainer.compat.v1.estimator.canned.networks import (
  dnn_logit_fn_builder,
  linear_logit_fn_builder,
)

_DNN_RATE = 0.001
_LINEAR_RATE = 0.005  # at most


class DNNLinearCombinedEstimator(Canned):
  """A linear model and dense layers together, each with an optimizer of its own."""

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
    input_layer_partitioner: Any = None,
    config: Any = None,
    warm_start_from: Any = None,
    batch_norm: bool = False,
    linear_sparse_combiner: str = "sum",
  ):
    linear, dnn = linear_feature_columns or [], dnn_feature_columns or []
    if not (linear or dnn):
      raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    if dnn and not dnn_hidden_units:
      raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
    units = head.logits_dimension
    dnn_logits = dnn_logit_fn_builder(
      units,
      dnn_hidden_units or [],
      dnn,
      dnn_activation_fn,
      dnn_dropout,
      input_layer_partitioner,
      batch_norm,
    )
    linear_logits = linear_logit_fn_builder(units, linear, linear_sparse_combiner)
    minimizers = []
    if dnn:
      minimizers.append(
        self.face.minimizer(lambda: self.face.optimizer(dnn_optimizer, _DNN_RATE), "dnn")
      )
    if linear:
      rate = min(_LINEAR_RATE, 1 / math.sqrt(len(linear)))
      minimizers.append(
        self.face.minimizer(
          lambda: self.face.optimizer(linear_optimizer, rate), "linear", counts=not dnn
        )
      )

    def logits_fn(features: dict[str, Any], mode: str) -> tf.Tensor:
      found = []
      if dnn:
        found.append(dnn_logits(features, mode))
      if linear:
        found.append(linear_logits(features))
        summary.scalar("linear/linear/fraction_of_zero_values", tf.math.zero_fraction(found[-1]))
      return tf.add_n(found)

    super().__init__(
      head,
      logits_fn,
      lambda loss: tf.group(*[minimize(loss) for minimize in minimizers]),
      model_dir,
      config,
      warm_start_from,
    )


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
  """A classifier by both."""

  def __init__(
    self,
    model_dir: str | None = None,
    n_classes: int = 2,
    weight_column: str | None = None,
    label_vocabulary: Sequence[str] | None = None,
    *,
    loss_reduction: str | None = None,
    **settings: Any,
  ):
    reduction = loss_reduction or self.face.reduction
    head = self.face.classification(n_classes, weight_column, label_vocabulary, reduction)
    super().__init__(head, model_dir, **settings)


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
  """A regression by both."""

  def __init__(
    self,
    model_dir: str | None = None,
    label_dimension: int = 1,
    weight_column: str | None = None,
    *,
    loss_reduction: str | None = None,
    **settings: Any,
  ):
    super().__init__(
      heads.RegressionHead(label_dimension, weight_column, loss_reduction or self.face.reduction),
      model_dir,
      **settings,
    )
