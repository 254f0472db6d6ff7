"""tf.contrib.metrics: the metrics of tf.metrics with predictions before labels, and others."""

import inspect
from typing import Any

import tensorflow as tf

from trainer.compat.contrib import argument_order
from trainer.compat.graph_mode import metrics
from trainer.compat.graph_mode.metric_pairs import deferrable

v1 = tf.compat.v1

for _name in metrics.__all__:
  _metric = getattr(metrics, _name)
  if [*inspect.signature(_metric).parameters][:2] == ["labels", "predictions"]:
    # streaming_recall_at_k takes one label a row.
    _name = _name.replace("recall_at_k", "sparse_recall_at_k")
    globals()[f"streaming_{_name}"] = argument_order.predictions_first(_metric, __name__)


def _running_sums(**series: tf.Tensor) -> list[tuple[tf.Tensor, ...]]:
  """Keeps sums over all batches by name: [the sums before this batch, the sums with it]."""
  before, after = [], []
  for name, values in series.items():
    total = tf.Variable(tf.zeros([], tf.float64), trainable=False, name=name)
    before.append(total.read_value())
    after.append(total.assign_add(tf.reduce_sum(values)))
  return [tuple(before), tuple(after)]


def _moments(predictions: Any, labels: Any, weights: Any) -> list[tuple[tf.Tensor, ...]]:
  """Returns [before, after] this batch: (weights; weights times covariance and both variances)."""
  p, y = tf.cast(predictions, tf.float64), tf.cast(labels, tf.float64)
  w = tf.ones_like(p) if weights is None else tf.cast(weights, tf.float64) * tf.ones_like(p)
  sums = _running_sums(n=w, p=w * p, y=w * y, pp=w * p * p, yy=w * y * y, py=w * p * y)
  found = []
  for n, sum_p, sum_y, sum_pp, sum_yy, sum_py in sums:
    of_both, of_p, of_y = (
      product - tf.math.divide_no_nan(one * other, n)
      for product, one, other in (
        (sum_py, sum_p, sum_y),
        (sum_pp, sum_p, sum_p),
        (sum_yy, sum_y, sum_y),
      )
    )
    found.append((n, of_both, of_p, of_y))
  return found


@deferrable
def streaming_pearson_correlation(
  predictions: Any, labels: Any, weights: Any = None, name: str | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns Pearson's correlation of two series."""
  with v1.variable_scope(name, "pearson_r"):
    value, update = (
      tf.cast(tf.math.divide_no_nan(of_both, tf.sqrt(of_p * of_y)), tf.float32)
      for _, of_both, of_p, of_y in _moments(predictions, labels, weights)
    )
    return value, update


@deferrable
def streaming_recall_at_k(
  predictions: Any,
  labels: Any,
  k: int,
  weights: Any = None,
  metrics_collections: Any = None,
  updates_collections: Any = None,
  name: str | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the share of rows whose label is among the k largest predictions."""
  found = tf.cast(tf.nn.in_top_k(labels, predictions, k), tf.float32)
  name = name or f"recall_at_{k}"
  return v1.metrics.mean(found, weights, metrics_collections, updates_collections, name)


@deferrable
def streaming_concat(
  values: Any, axis: int = 0, max_size: int | None = None, name: str | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
  """Joins the values of all batches along an axis.

  Args:
    max_size: the most values to keep along the axis; None for all.
  """
  values = tf.convert_to_tensor(values)
  shape = values.shape.as_list()
  shape[axis] = None
  with v1.variable_scope(name, "streaming_concat"):
    kept = tf.Variable(
      tf.zeros([0 if size is None else size for size in shape], values.dtype),
      trainable=False,
      shape=shape,
      name="array",
    )
    before = kept.read_value()
    every = tf.concat([before, values], axis)
    if max_size is not None:
      every = tf.gather(every, tf.range(tf.minimum(tf.shape(every)[axis], max_size)), axis=axis)
    return before, kept.assign(every)
