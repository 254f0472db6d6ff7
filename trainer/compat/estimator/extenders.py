"""Estimators made from others: with more metrics, or with features in the predictions."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer import ModeKeys, spec
from trainer.compat.estimator.estimator import Estimator
from trainer.compat.estimator.export import PredictOutput

_ARGUMENTS = ("features", "labels", "predictions", "config")


def add_metrics(estimator: Estimator, metric_fn: Callable[..., dict[str, Any]]) -> Estimator:
  """Returns an Estimator in the same model_dir that evaluates more metrics.

  Args:
    estimator: the Estimator with the model.
    metric_fn: function of any of features, labels, predictions and config that returns metrics by
      name, as in eval_metric_ops; they replace the estimator's metrics with the same names.

  Raises:
    ValueError: metric_fn has another argument.
  """
  taken = list(inspect.signature(metric_fn).parameters)
  unknown = [name for name in taken if name not in _ARGUMENTS]
  if unknown:
    raise ValueError(
      f"metric_fn {spec.name_of(metric_fn)} takes {unknown}; expected some of {list(_ARGUMENTS)}."
    )

  def model_fn(features, labels, mode, config):
    made = estimator.model_fn(features, labels, mode, config)
    if mode != ModeKeys.EVAL:
      return made
    known = dict(features=features, labels=labels, predictions=made.predictions, config=config)
    added = metric_fn(**{name: known[name] for name in taken})
    return made._replace(eval_metric_ops={**(made.eval_metric_ops or {}), **added})

  return _with_model_fn(estimator, model_fn)


def forward_features(
  estimator: Estimator,
  keys: str | Sequence[str] | None = None,
  sparse_default_values: dict[str, Any] | None = None,
) -> Estimator:
  """Returns an Estimator in the same model_dir that adds features to the predictions.

  An export's signature `predict` has the features too.

  Args:
    estimator: the Estimator with the model.
    keys: the features' keys; None for all.
    sparse_default_values: key → the filler of a sparse feature; default 0 or "".

  Raises:
    KeyError: no feature has the key.
    ValueError: the predictions are no dict, or have an entry with a feature's key.
  """
  wanted = [keys] if isinstance(keys, str) else keys

  def feature(features, key):
    found = features[key]
    if not isinstance(found, tf.SparseTensor):
      return found
    return tf.sparse.to_dense(found, (sparse_default_values or {}).get(key))

  def model_fn(features, labels, mode, config):
    made = estimator.model_fn(features, labels, mode, config)
    if made.predictions is None:
      return made
    if not isinstance(made.predictions, dict):
      raise ValueError(f"forward_features: predictions must be a dict; got {made.predictions}.")
    added = {key: feature(features, key) for key in (features if wanted is None else wanted)}
    if both := sorted(set(added) & set(made.predictions)):
      raise ValueError(f"forward_features: {both} are predictions as well as features.")
    made = made._replace(predictions=made.predictions | added)
    outputs = dict(made.export_outputs or {})
    if isinstance(outputs.get("predict"), PredictOutput):
      outputs["predict"] = PredictOutput(dict(outputs["predict"].outputs) | added)
      made = made._replace(export_outputs=outputs)
    return made

  return _with_model_fn(estimator, model_fn)


def _with_model_fn(estimator: Estimator, model_fn: Callable) -> Estimator:
  return Estimator(model_fn, estimator.model_dir, estimator.config, None, estimator.warm_start_from)
