"""tf.estimator.add_metrics: an Estimator with metrics beside its own."""

import inspect
from collections.abc import Callable
from typing import Any

from trainer import ModeKeys, spec
from trainer.compat.v1.estimator.estimator import Estimator

_ARGUMENTS = ("features", "labels", "predictions", "config")


def add_metrics(estimator: Estimator, metric_fn: Callable[..., dict[str, Any]]) -> Estimator:
  """An Estimator in the same model_dir that evaluates more metrics.

  Args:
    estimator: the one that has the model.
    metric_fn: function of any of features, labels, predictions and config that returns metrics by
      name, as eval_metric_ops has them; they take the place of the estimator's of the same name.

  Raises:
    ValueError: metric_fn takes another argument.
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

  return Estimator(model_fn, estimator.model_dir, estimator.config, None, estimator.warm_start_from)
