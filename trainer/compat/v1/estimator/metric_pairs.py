"""Metrics that a model_fn makes, counted on the host.

In a session, `tf.metrics.accuracy(...)` inside a model_fn made variables and an operation that
updates them. Here the model_fn's graph is a step on each core: a function of `tf.metrics` that is
called in it, to evaluate, is noted with its tensors, and called on the host with those of all cores
and without what was padded. The pair that the model_fn gets stands for it.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.internals import patches

_evaluating: contextvars.ContextVar[bool] = contextvars.ContextVar(
  "compat_evaluating", default=False
)


class DeferredPair(tuple):
  """What a function of tf.metrics returns in a model_fn that is evaluated: (value, update_op).

  Attributes:
    fn, args, kwargs: the function and what it was called with.
  """

  def __new__(cls, fn: Callable, args: tuple, kwargs: dict[str, Any]):
    zero = tf.constant(0.0)
    self = super().__new__(cls, (zero, tf.identity(zero)))
    self.fn, self.args, self.kwargs = fn, args, kwargs
    return self


@contextlib.contextmanager
def deferred(evaluating: bool) -> Iterator[None]:
  """Inside, on this thread, functions of tf.metrics are noted, where the mode is not training."""
  with patches.set_context(_evaluating, evaluating):
    yield


def deferrable(fn: Callable) -> Callable:
  """A function of tf.metrics that is only noted inside `deferred`."""

  def metric(*args: Any, **kwargs: Any) -> Any:
    if _evaluating.get():
      return DeferredPair(fn, args, kwargs)
    return fn(*args, **kwargs)

  metric.__name__, metric.__doc__ = fn.__name__, fn.__doc__
  metric.__wrapped__ = fn
  return metric


def eval_metrics(
  metric_ops: Mapping[str, Any], batch: Any
) -> tuple[Callable[..., dict[str, Any]], dict[str, tf.Tensor]]:
  """The eval_metrics of Octet, from the eval_metric_ops of an EstimatorSpec.

  Args:
    metric_ops: dict of name → DeferredPair.
    batch: the number of examples: an int, or a tensor.

  Returns:
    (metric_fn, dict of name → tensor).

  Raises:
    SpecError: a metric is not one of tf.metrics.
  """
  tensors: dict[str, tf.Tensor] = {}
  calls: dict[str, tuple[Callable, Any, list[Any]]] = {}
  for name, pair in metric_ops.items():
    if not isinstance(pair, DeferredPair):
      raise errors.SpecError(
        f"eval_metric_ops[{name!r}] is {pair!r}: expected what a function of tf.metrics returns, "
        "as it returned it. For others, return a TPUEstimatorSpec(eval_metrics=(metric_fn, "
        "tensors)), whose metric_fn may compute with the values."[:600]
      )
    structure = (pair.args, pair.kwargs)
    leaves: list[Any] = []
    for leaf in tf.nest.flatten(structure):
      if tf.is_tensor(leaf) or isinstance(leaf, tf.Variable):
        key = f"{name}/{len(leaves)}"
        tensors[key], restore = by_example(tf.convert_to_tensor(leaf), batch)
        leaves.append((key, restore))
      else:
        leaves.append(leaf)
    calls[name] = pair.fn, structure, leaves

  def metric_fn(**gathered: tf.Tensor) -> dict[str, Any]:
    found = {}
    for name, (fn, structure, leaves) in calls.items():
      given = [leaf[1](gathered[leaf[0]]) if type(leaf) is tuple else leaf for leaf in leaves]
      args, kwargs = tf.nest.pack_sequence_as(structure, given)
      found[name] = fn(*args, **kwargs)
    return found

  return metric_fn, tensors


def by_example(tensor: tf.Tensor, batch: Any) -> tuple[tf.Tensor, Callable]:
  """A tensor with an entry for each example, and a function that makes of many the tensor again.

  A scalar, as of a batch's mean, becomes the value of each example; several rows for an example,
  as of its words, become one row of them.
  """
  if tensor.shape.rank == 0:
    return tf.fill([batch], tensor), lambda gathered: gathered
  rows = tensor.shape.as_list()[0] if tensor.shape.rank is not None else None
  if not isinstance(batch, int) or rows is None or rows == batch or rows % batch:
    return tensor, lambda gathered: gathered
  shape = tensor.shape[1:].as_list()
  return (
    tf.reshape(tensor, [batch, rows // batch, *shape]),
    lambda gathered: tf.reshape(gathered, [-1, *shape]),
  )
