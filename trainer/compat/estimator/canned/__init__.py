"""Canned estimators over tf.feature_column: DNN, linear, both together, and baselines.

Variables have the names that tf.compat.v1's had: `dnn/hiddenlayer_0/kernel`,
`linear/linear_model/age/weights`, `baseline/bias`.
"""

from trainer.compat.estimator.canned.baseline import (
  BaselineClassifier,
  BaselineEstimator,
  BaselineRegressor,
)
from trainer.compat.estimator.canned.combined import (
  DNNLinearCombinedClassifier,
  DNNLinearCombinedEstimator,
  DNNLinearCombinedRegressor,
)
from trainer.compat.estimator.canned.dnn import DNNClassifier, DNNEstimator, DNNRegressor
from trainer.compat.estimator.canned.linear import (
  LinearClassifier,
  LinearEstimator,
  LinearRegressor,
)

__all__ = [
  "BaselineClassifier",
  "BaselineEstimator",
  "BaselineRegressor",
  "DNNClassifier",
  "DNNEstimator",
  "DNNLinearCombinedClassifier",
  "DNNLinearCombinedEstimator",
  "DNNLinearCombinedRegressor",
  "DNNRegressor",
  "LinearClassifier",
  "LinearEstimator",
  "LinearRegressor",
]
