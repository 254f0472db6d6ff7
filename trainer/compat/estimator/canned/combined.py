"""Canned estimators of dense layers and a linear model together."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.estimator import heads
from trainer.compat.estimator.canned.base import Canned, Classifier, Regressor
from trainer.compat.estimator.canned.networks import dnn_logit_fn_builder, linear_logit_fn_builder
from trainer.compat.graph_mode import summary

_DNN_RATE = 0.001
_LINEAR_RATE = 0.005  # at most


class DNNLinearCombinedEstimator(Canned):
  """A linear model and dense layers together, each with an optimizer of its own."""

  def __init__(
    self,
    head: heads.Head,
    model_dir: str | None = None,
    linear_feature_columns: Sequence[Any] | None = None,
    linear_optimizer: Any = "Ftrl",
    dnn_feature_columns: Sequence[Any] | None = None,
    dnn_optimizer: Any = "Adagrad",
    dnn_hidden_units: Sequence[int] | None = None,
    dnn_activation_fn: Any = tf.nn.relu,
    dnn_dropout: float | None = None,
    input_layer_partitioner: Any = None,
    config: Any = None,
    warm_start_from: Any = None,
    batch_norm: bool = False,
    linear_sparse_combiner: str = "sum",
  ):
    linear, dnn = linear_feature_columns or [], dnn_feature_columns or []
    if not (linear or dnn):
      raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    if dnn and not dnn_hidden_units:
      raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
    units = head.logits_dimension
    dnn_logits = linear_logits = None
    if dnn:
      dnn_logits = dnn_logit_fn_builder(
        units,
        dnn_hidden_units,
        dnn,
        dnn_activation_fn,
        dnn_dropout,
        input_layer_partitioner,
        batch_norm,
      )
    if linear:
      linear_logits = linear_logit_fn_builder(units, linear, linear_sparse_combiner)
    minimizers = self._minimizers(linear, linear_optimizer, dnn, dnn_optimizer)
    super().__init__(
      head,
      functools.partial(_sum_of_logits, dnn_logits, linear_logits),
      lambda loss: tf.group(*[minimize(loss) for minimize in minimizers]),
      model_dir,
      config,
      warm_start_from,
    )

  def _minimizers(
    self, linear: Sequence[Any], linear_optimizer: Any, dnn: Sequence[Any], dnn_optimizer: Any
  ) -> list[Callable[[tf.Tensor], Any]]:
    """For each part that has columns, a function of the loss that makes its train_op."""
    face, found = self.face, []
    if dnn:
      found.append(face.minimizer(lambda: face.optimizer(dnn_optimizer, _DNN_RATE), "dnn"))
    if linear:
      rate = min(_LINEAR_RATE, 1 / math.sqrt(len(linear)))
      found.append(
        face.minimizer(lambda: face.optimizer(linear_optimizer, rate), "linear", counts=not dnn)
      )
    return found


def _sum_of_logits(
  dnn_logits: Callable | None, linear_logits: Callable | None, features: dict[str, Any], mode: str
) -> tf.Tensor:
  found = []
  if dnn_logits is not None:
    found.append(dnn_logits(features, mode))
  if linear_logits is not None:
    found.append(linear_logits(features))
    summary.scalar("linear/linear/fraction_of_zero_values", tf.math.zero_fraction(found[-1]))
  return tf.add_n(found)


class DNNLinearCombinedClassifier(Classifier, DNNLinearCombinedEstimator):
  """A classifier by both."""


class DNNLinearCombinedRegressor(Regressor, DNNLinearCombinedEstimator):
  """A regression by both."""
