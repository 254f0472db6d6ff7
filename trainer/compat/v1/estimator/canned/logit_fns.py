"""The networks of canned estimators as functions, of which programs make models of their own."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.v1.estimator import input_fns
from trainer.compat.v1.estimator.canned.networks import dnn_logits, linear_logits


def dnn_logit_fn_builder(
  units: int,
  hidden_units: Sequence[int],
  feature_columns: Sequence[Any],
  activation_fn: Any,
  dropout: float | None,
  input_layer_partitioner: Any,
  batch_norm: bool,
) -> Callable[[dict[str, Any], str], tf.Tensor]:
  """A function of features and mode that gives the logits of a DNNEstimator, [batch, units]."""
  del input_layer_partitioner
  settings = dict(
    hidden_units=list(hidden_units),
    feature_columns=feature_columns,
    activation_fn=activation_fn,
    dropout=dropout,
    batch_norm=batch_norm,
  )

  def logit_fn(features, mode):
    return dnn_logits(features, mode, units, settings)

  return logit_fn


def linear_logit_fn_builder(
  units: int, feature_columns: Sequence[Any], sparse_combiner: str = "sum"
) -> Callable[[dict[str, Any]], tf.Tensor]:
  """A function of features that gives the logits of a LinearEstimator, [batch, units]."""

  def logit_fn(features):
    return linear_logits(features, units, feature_columns, sparse_combiner)

  return logit_fn


def call_logit_fn(
  logit_fn: Callable, features: dict[str, Any], mode: str, params: Any, config: Any
) -> Any:
  """Calls a logit_fn with features and with what it takes of mode, params and config.

  Raises:
    ValueError: it returned neither a tensor nor a dict of tensors.
  """
  given = dict(mode=mode, params=params, config=config)
  found = logit_fn(
    features=features,
    **{name: value for name, value in given.items() if input_fns.takes(logit_fn, name)},
  )
  values = list(found.values()) if isinstance(found, dict) else [found]
  if not values or not all(map(tf.is_tensor, values)):
    raise ValueError(f"logit_fn should return a Tensor or a dict of Tensors; it returned {found}.")
  return found
