"""canned.head of tensorflow_estimator: heads under the names that wrappers of them use.

Their loss is the sum over the examples of all cores, as that of the heads of canned estimators.
"""

from collections.abc import Callable, Sequence
from typing import Any

from trainer.compat.estimator import heads
from trainer.compat.estimator.heads import SUM
from trainer.compat.estimator.heads import Head as _Head
from trainer.compat.estimator.heads import classification as _binary_logistic_or_multi_class_head

__all__ = ["_Head", "_binary_logistic_or_multi_class_head"]


def _multi_class_head_with_softmax_cross_entropy_loss(
  n_classes: int,
  weight_column: Any = None,
  label_vocabulary: Sequence[str] | None = None,
  loss_reduction: str = SUM,
  loss_fn: Callable | None = None,
  name: str | None = None,
) -> _Head:
  return heads.MultiClassHead(
    n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name
  )


def _binary_logistic_head_with_sigmoid_cross_entropy_loss(
  weight_column: Any = None,
  thresholds: Sequence[float] | None = None,
  label_vocabulary: Sequence[str] | None = None,
  loss_reduction: str = SUM,
  loss_fn: Callable | None = None,
  name: str | None = None,
) -> _Head:
  return heads.BinaryClassHead(
    weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name
  )


def _regression_head(
  weight_column: Any = None,
  label_dimension: int = 1,
  loss_reduction: str = SUM,
  loss_fn: Callable | None = None,
  inverse_link_fn: Callable | None = None,
  name: str | None = None,
) -> _Head:
  return heads.RegressionHead(
    label_dimension, weight_column, loss_reduction, loss_fn, inverse_link_fn, name
  )
