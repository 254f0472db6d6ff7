"""Heads as functions, under older names.

Some are names of tf.contrib.estimator; others are private names of tensorflow_estimator that
wrappers use.

The latter's loss is the sum over the examples of all cores, as in canned estimators.
"""

from collections.abc import Callable
from typing import Any

from trainer.compat.estimator import heads


def _function(head: type[heads.Head], reduction: str, arguments: str) -> Callable[..., heads.Head]:
  """Returns a function that makes a head.

  Args:
    head: its class.
    reduction: the head's default loss_reduction.
    arguments: the names of its arguments in order.
  """
  names = arguments.split()

  def make(*args: Any, **settings: Any) -> heads.Head:
    given = dict(zip(names[: len(args)], args, strict=True)) | settings
    return head(**{"loss_reduction": reduction} | given)

  return make


_OF_REGRESSION = "weight_column label_dimension loss_reduction loss_fn inverse_link_fn name"

regression_head = _function(heads.RegressionHead, heads.MEAN, _OF_REGRESSION)
canned_regression_head = _function(heads.RegressionHead, heads.SUM, _OF_REGRESSION)
canned_multi_class_head = _function(
  heads.MultiClassHead,
  heads.SUM,
  "n_classes weight_column label_vocabulary loss_reduction loss_fn name",
)
canned_binary_head = _function(
  heads.BinaryClassHead,
  heads.SUM,
  "weight_column thresholds label_vocabulary loss_reduction loss_fn name",
)
