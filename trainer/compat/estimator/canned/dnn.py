"""Canned estimators of dense layers."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.estimator import heads
from trainer.compat.estimator.canned.base import Canned
from trainer.compat.estimator.canned.networks import dnn_logit_fn_builder


class DNNEstimator(Canned):
  """A network of dense layers, with a head of its own."""

  def __init__(
    self,
    head: heads.Head,
    hidden_units: Sequence[int],
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    optimizer: Any = "Adagrad",
    activation_fn: Any = tf.nn.relu,
    dropout: float | None = None,
    input_layer_partitioner: Any = None,
    config: Any = None,
    warm_start_from: Any = None,
    batch_norm: bool = False,
  ):
    logit_fn = dnn_logit_fn_builder(
      head.logits_dimension,
      hidden_units,
      feature_columns,
      activation_fn,
      dropout,
      input_layer_partitioner,
      batch_norm,
    )
    super().__init__(
      head,
      logit_fn,
      self.face.minimizer(
        lambda: self.face.optimizer(optimizer, self.face.dnn_rate), slots="t_0/", within="dnn"
      ),
      model_dir,
      config,
      warm_start_from,
      scope="dnn",
    )


class DNNClassifier(DNNEstimator):
  """A classifier of dense layers."""

  def __init__(
    self,
    hidden_units: Sequence[int],
    feature_columns: Sequence[Any],
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
    super().__init__(head, hidden_units, feature_columns, model_dir, **settings)


class DNNRegressor(DNNEstimator):
  """A regression by dense layers."""

  def __init__(
    self,
    hidden_units: Sequence[int],
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    label_dimension: int = 1,
    weight_column: str | None = None,
    *,
    loss_reduction: str | None = None,
    **settings: Any,
  ):
    head = heads.RegressionHead(
      label_dimension, weight_column, loss_reduction or self.face.reduction
    )
    super().__init__(head, hidden_units, feature_columns, model_dir, **settings)
