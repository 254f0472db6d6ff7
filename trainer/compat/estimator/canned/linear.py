"""Canned linear estimators."""

import functools
import math
from collections.abc import Sequence
from typing import Any

from trainer.compat.estimator import heads
from trainer.compat.estimator.canned.base import Canned
from trainer.compat.estimator.canned.networks import linear_logit_fn_builder

_RATE = 0.2


class LinearEstimator(Canned):
  """A linear model, with a head of its own."""

  def __init__(
    self,
    head: heads.Head,
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    optimizer: Any = "Ftrl",
    config: Any = None,
    partitioner: Any = None,
    sparse_combiner: str = "sum",
    warm_start_from: Any = None,
  ):
    del partitioner
    if optimizer is None:
      rate = min(_RATE, 1 / math.sqrt(len(feature_columns)))
      optimizer = functools.partial(self.face.optimizers["Ftrl"], rate)
    logit_fn = linear_logit_fn_builder(head.logits_dimension, feature_columns, sparse_combiner)
    super().__init__(
      head,
      lambda features, mode: logit_fn(features),
      self.face.minimizer(
        lambda: self.face.optimizer(optimizer, _RATE), slots="part_0/", within="linear"
      ),
      model_dir,
      config,
      warm_start_from,
      scope="linear",
    )


class LinearClassifier(LinearEstimator):
  """A linear classifier."""

  def __init__(
    self,
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
    super().__init__(head, feature_columns, model_dir, **settings)


class LinearRegressor(LinearEstimator):
  """A linear regression."""

  def __init__(
    self,
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
    super().__init__(head, feature_columns, model_dir, **settings)
