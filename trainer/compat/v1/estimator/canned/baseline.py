"""Canned estimators that learn a bias alone."""

from collections.abc import Sequence
from typing import Any

from trainer.compat.v1.estimator import heads
from trainer.compat.v1.estimator.canned.base import Canned
from trainer.compat.v1.estimator.canned.networks import baseline_logits

_RATE = 0.3


class BaselineEstimator(Canned):
  """A bias alone, which learns the mean of the labels."""

  def __init__(
    self,
    head: heads.Head,
    model_dir: str | None = None,
    optimizer: Any = "Ftrl",
    config: Any = None,
  ):
    super().__init__(
      head,
      lambda features, mode: baseline_logits(features, head.logits_dimension),
      self.face.minimizer(lambda: self.face.optimizer(optimizer, _RATE)),
      model_dir,
      config,
      None,
    )


class BaselineClassifier(BaselineEstimator):
  """The frequencies of the classes."""

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


class BaselineRegressor(BaselineEstimator):
  """The mean of the labels."""

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
