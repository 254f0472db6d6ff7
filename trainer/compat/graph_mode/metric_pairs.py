"""Metrics that a model_fn makes, counted on the host.

`tf.metrics.accuracy(...)` makes variables and an operation that updates them. In an evaluation,
Octet traces the model_fn into a step for each core, where such variables would count one core's
examples, padded ones too. So a function of `tf.metrics` only records its tensors there and returns
a `DeferredPair`. The host calls the function with the tensors of all cores, without padding.

The host also computes values that the model_fn derives from the pairs (see `metric_graphs`), and
updates the model_fn's Keras metrics (see `keras_metrics`).
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from trainer import spec
from trainer.compat.graph_mode import host_rows, keras_metrics, metric_graphs
from trainer.internals import patches
from trainer.programs import exact_metrics

v1 = tf.compat.v1


class DeferredPair(tuple):
  """The pair (value, update_op) that a function of tf.metrics returns in an evaluation step.

  Attributes:
    fn, args, kwargs: the function and its arguments.
  """

  def __new__(cls, fn: Callable, args: tuple, kwargs: dict[str, Any]):
    args, kwargs = tf.nest.map_structure(_converted, (args, kwargs))
    # `fn` must not run in the model_fn's graph: its variables and updates would join the step. A
    # scratch graph yields the shapes.
    like = _result_of(fn, args, kwargs)
    self = super().__new__(cls, (_stand_in(like[0]), _stand_in(like[1])))
    self.fn, self.args, self.kwargs = fn, args, kwargs
    return self


def _result_of(fn: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
  """Calls the function in a scratch graph; returns its pair, for the shapes."""
  with tf.Graph().as_default():
    args, kwargs = tf.nest.map_structure(
      lambda leaf: v1.placeholder(leaf.dtype, leaf.shape) if _is_tensor(leaf) else leaf,
      (args, kwargs),
    )
    return fn(*args, **kwargs)


def _stand_in(like: Any) -> tf.Tensor:
  # The model_fn may compute with the pair. Any value of the right shape serves: the host replaces
  # it.
  dtype, shape = like.dtype.base_dtype, like.shape
  size = [length or 0 for length in shape] if shape.rank is not None else []
  empty = tf.constant("" if dtype == tf.string else 0, dtype, size)
  return v1.placeholder_with_default(empty, shape)


def _is_tensor(leaf: Any) -> bool:
  return tf.is_tensor(leaf) or isinstance(leaf, tf.Variable)


def _converted(leaf: Any) -> Any:
  """Converts an object with a conversion to tensors that the program registered."""
  if _is_tensor(leaf) or callable(leaf) or type(leaf).__module__ in ("builtins", "numpy"):
    return leaf
  try:
    return tf.convert_to_tensor(leaf)
  except (TypeError, ValueError):  # no conversion: the function takes the object itself
    return leaf


# The pairs that the evaluated model_fn has made; None outside of an evaluation.
_pairs: contextvars.ContextVar[list[DeferredPair] | None] = contextvars.ContextVar(
  "compat_metric_pairs", default=None
)
_is_counting: contextvars.ContextVar[bool] = contextvars.ContextVar(
  "compat_is_counting", default=False
)


@contextlib.contextmanager
def defer_metrics(evaluating: bool) -> Iterator[None]:
  """If `evaluating`, functions of tf.metrics only record their calls, on this thread."""
  with (
    patches.set_context(_pairs, [] if evaluating else None),
    keras_metrics.defer_updates(evaluating),
  ):
    yield


def counting(metric_fn: Callable) -> Callable:
  """Wraps a metric_fn so that pairs, and values computed from them, have updated values."""

  @functools.wraps(metric_fn)
  def count(*args: Any, **kwargs: Any) -> Any:
    with (
      patches.set_context(_is_counting, True),
      patches.set_context(_pairs, None),
      patches.set_context(exact_metrics.EXAMPLES, None),
    ):
      return metric_fn(*args, **kwargs)

  count.is_of_2_15 = True  # Its numbers are those of TensorFlow 2.15, of batches too.
  return count


def deferrable(fn: Callable) -> Callable:
  """Wraps a function of tf.metrics so that `defer_metrics` can defer it."""

  @functools.wraps(fn)
  def metric(*args: Any, **kwargs: Any) -> Any:
    pairs = _pairs.get()
    if pairs is not None:
      pairs.append(DeferredPair(fn, args, kwargs))
      return pairs[-1]
    if _is_counting.get():
      return _updated(*fn(*args, **kwargs))
    return fn(*args, **kwargs)

  return metric


def _updated(value: tf.Tensor, update: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns a pair whose value includes the update.

  An update_op returns the updated value. If it returns something else, as mean_iou returns its
  confusion matrix, this reads the value again after the update.
  """
  if update.shape == value.shape and update.dtype == value.dtype:
    return update, update
  with tf.control_dependencies([update]):
    value = tf.identity(value)
  return value, value


def eval_metrics(
  metric_ops: Mapping[str, Any], batch: Any
) -> tuple[Callable[..., dict[str, Any]], dict[str, tf.Tensor]]:
  """Returns Octet's eval_metrics for the eval_metric_ops of an EstimatorSpec.

  Args:
    metric_ops: name → DeferredPair, a pair computed from such pairs or from the program's
      variables, or a Keras metric.
    batch: the number of examples: an int, or a tensor.

  Returns:
    (metric_fn, dict of name → tensor).

  Raises:
    SpecError: a metric is of another kind.
  """
  tensors: dict[str, tf.Tensor] = {}
  pairs = list(_pairs.get() or ())
  of_keras = {
    name: metric for name, metric in metric_ops.items() if isinstance(metric, keras.metrics.Metric)
  }
  others = {name: metric for name, metric in metric_ops.items() if name not in of_keras}
  graph = metric_graphs.MetricGraph(others, pairs, batch)
  tensors |= graph.tensors
  calls = {
    index: _Call(f"metric/{index}", pairs[index].fn, (pairs[index].args, pairs[index].kwargs))
    for index in graph.needs
  }
  updates = {
    name: [
      _Call(f"{name}/{number}", update, arguments)
      for number, (update, arguments) in enumerate(keras_metrics.updates_of(name, metric))
    ]
    for name, metric in of_keras.items()
  }
  for call in [*calls.values(), *(call for found in updates.values() for call in found)]:
    tensors |= call.tensors(batch)

  def metric_fn(**gathered: tf.Tensor) -> dict[str, Any]:
    counted = {index: _updated(*call(gathered)) for index, call in calls.items()}
    found: dict[str, Any] = dict(graph.on_host(gathered, counted))
    for name, metric in of_keras.items():
      anew = keras_metrics.anew(metric)
      for call in updates[name]:
        call(gathered, anew)
      found[name] = anew
    return {name: found[name] for name in metric_ops}

  return counting(metric_fn), tensors


def of_metric_fn(
  metric_fn: Callable, arguments: Any, batch: Any
) -> tuple[Callable[..., dict[str, Any]], dict[str, tf.Tensor]]:
  """Returns Octet's eval_metrics for those of a TPUEstimatorSpec.

  Args:
    metric_fn: function of the arguments.
    arguments: a list or a dict. Other values than tensors, such as the number of classes, reach
      metric_fn as they are.
    batch: the number of examples: an int, or a tensor.

  Returns:
    (metric_fn, dict of name → tensor).
  """
  is_dict = isinstance(arguments, Mapping)
  call = _Call("metrics", metric_fn, ((), dict(arguments)) if is_dict else (list(arguments), {}))
  tensors = call.tensors(batch)

  def count(**gathered: tf.Tensor) -> dict[str, Any]:
    return call(gathered)

  count.__qualname__ = spec.name_of(metric_fn)
  return counting(count), tensors


class _Call:
  """A call of a function on the host, with tensors of the step.

  Args:
    name: prefix of the names of its tensors.
    fn: the function.
    arguments: (args, kwargs).
  """

  def __init__(self, name: str, fn: Callable, arguments: tuple):
    self._name, self._fn, self._arguments = name, fn, arguments
    self._leaves: list[Any] = []

  def tensors(self, batch: Any) -> dict[str, tf.Tensor]:
    """Returns name → tensor that the step sends to the host, with a row for each example."""
    found = {}
    for leaf in tf.nest.flatten(self._arguments):
      if _is_tensor(leaf):
        key = f"{self._name}/{len(self._leaves)}"
        found[key], restore = host_rows.by_example(tf.convert_to_tensor(leaf), batch)
        leaf = _Sent(key, restore)
      self._leaves.append(leaf)
    return found

  def __call__(self, gathered: Mapping[str, tf.Tensor], *before: Any) -> Any:
    given = [
      leaf.restore(gathered[leaf.key]) if isinstance(leaf, _Sent) else leaf for leaf in self._leaves
    ]
    args, kwargs = tf.nest.pack_sequence_as(self._arguments, given)
    return self._fn(*before, *args, **kwargs)


class _Sent:
  """A tensor on its way to the host.

  Attributes:
    key: the name of its rows.
    restore: function of the rows on the host that returns the tensor in its former shape.
  """

  def __init__(self, key: str, restore: Callable):
    self.key, self.restore = key, restore
