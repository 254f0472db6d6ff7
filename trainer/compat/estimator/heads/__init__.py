"""Heads of estimators: from logits to a loss, metrics, predictions and signatures.

The heads that canned estimators of tf.compat.v1 make add up the losses of the examples of all
cores; those that a program makes take their mean. `loss_reduction` says it otherwise.
"""

from trainer.compat.estimator.heads.base import MEAN, SUM, Head, minimized
from trainer.compat.estimator.heads.classification import (
  BinaryClassHead,
  MultiClassHead,
  classification,
)
from trainer.compat.estimator.heads.multi_head import MultiHead
from trainer.compat.estimator.heads.multi_label import MultiLabelHead
from trainer.compat.estimator.heads.regression import (
  LogisticRegressionHead,
  PoissonRegressionHead,
  RegressionHead,
)

__all__ = [
  "MEAN",
  "SUM",
  "BinaryClassHead",
  "Head",
  "LogisticRegressionHead",
  "MultiClassHead",
  "MultiHead",
  "MultiLabelHead",
  "PoissonRegressionHead",
  "RegressionHead",
  "classification",
  "minimized",
]
