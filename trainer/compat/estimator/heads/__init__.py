"""Heads of estimators: from logits to a loss, metrics, predictions and signatures.

The heads of tf.compat.v1's canned estimators add the losses of the examples on all cores; a
program's own heads take the mean. `loss_reduction` changes this.
"""

from trainer.compat.estimator.heads.base import MEAN, SUM, Head, minimized
from trainer.compat.estimator.heads.classification import (
  BinaryClassHead,
  MultiClassHead,
  classification,
)
from trainer.compat.estimator.heads.multi_head import MultiHead
from trainer.compat.estimator.heads.multi_label import MultiLabelHead
from trainer.compat.estimator.heads.regression import RegressionHead

__all__ = [
  "MEAN",
  "SUM",
  "BinaryClassHead",
  "Head",
  "MultiClassHead",
  "MultiHead",
  "MultiLabelHead",
  "RegressionHead",
  "classification",
  "minimized",
]
