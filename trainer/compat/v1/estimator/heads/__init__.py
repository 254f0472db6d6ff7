"""Heads of estimators: from logits to a loss, metrics, predictions and signatures.

The heads that canned estimators of tf.compat.v1 make add up the losses of the examples of all
cores; those that a program makes take their mean. `loss_reduction` says it otherwise.
"""

from trainer.compat.v1.estimator.heads.base import MEAN, SUM, Head
from trainer.compat.v1.estimator.heads.classification import (
  BinaryClassHead,
  MultiClassHead,
  classification,
)
from trainer.compat.v1.estimator.heads.regression import RegressionHead

__all__ = [
  "MEAN",
  "SUM",
  "BinaryClassHead",
  "Head",
  "MultiClassHead",
  "RegressionHead",
  "classification",
]
