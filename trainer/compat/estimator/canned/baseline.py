"""Canned estimators that learn a bias alone."""

from typing import Any

from trainer.compat.estimator import heads
from trainer.compat.estimator.canned.base import Canned, Classifier, Regressor
from trainer.compat.estimator.canned.networks import baseline_logits

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


class BaselineClassifier(Classifier, BaselineEstimator):
  """The frequencies of the classes."""


class BaselineRegressor(Regressor, BaselineEstimator):
  """The mean of the labels."""
