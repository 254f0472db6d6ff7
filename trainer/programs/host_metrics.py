"""Runs a metric_fn on the host: updates its metrics batch by batch and reads them at the end."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from trainer import errors, spec
from trainer.inputs import elements
from trainer.tracing import variable_store


class HostMetrics:
  """The metrics of an evaluation and their variables.

  A metric_fn makes new metrics at each call, as a model_fn makes new layers. So a VariableStore
  keeps their variables, as it does for a model_fn.

  Call `update` during the trace of a tf.function, and `reset` outside.

  Args:
    model: the store of the model, whose variables a metric_fn may read; None if there is no model.
  """

  def __init__(self, model: variable_store.VariableStore | None = None) -> None:
    self._model = model
    self._store = variable_store.VariableStore(tf.distribute.get_strategy())

  def reset(self) -> None:
    """Sets the variables of all metrics to their initial values."""
    self._store.reset()

  def update(
    self, metric_fn: Callable[..., Mapping[str, Any]] | None, tensors: list | dict[str, tf.Tensor]
  ) -> dict[str, Callable[[], tf.Tensor]]:
    """Adds a batch to the metrics.

    Args:
      metric_fn: as in EstimatorSpec.eval_metrics; None if there are no metrics.
      tensors: the arguments of metric_fn; a dict becomes keywords.

    Returns:
      Name → function that returns the metric's value over all batches since `reset`. The function
      also works after the loop around the call of `update`, see `read`.

    Raises:
      ModelFnError: metric_fn raised an exception.
      SpecError: metric_fn returned something other than a dict of metrics.
    """
    readers: dict[str, Callable[[], tf.Tensor]] = {}

    def update():
      metrics = {} if metric_fn is None else _call(metric_fn, tensors)
      spec.check_metrics(metrics)
      readers.update({name: self._readable(name, metric) for name, metric in metrics.items()})

    name = "" if metric_fn is None else f"metric_fn {spec.name_of(metric_fn)}"
    step = tf.constant(0, tf.int64)
    self._store.run(update, (), step, name=name, beside=self._model)
    return readers

  def _readable(self, name, metric):
    """Returns a function that reads the metric after the loop over the batches.

    The loop's body is a separate graph: after the loop, its tensors are out of reach, but variables
    are not.
    """
    if isinstance(metric, keras.metrics.Metric):
      return metric.result
    if not (isinstance(metric, tuple | list) and len(metric) == 2):
      raise errors.SpecError(
        f"eval_metrics: {name!r} must be a Keras metric or a "
        f"tf.compat.v1.metrics pair; got {metric!r}"[:300]
      )
    value = _value_after_update(*metric)
    # A size that the trace does not know starts as 0; `shape` admits the real one at the
    # assignment.
    kept = tf.Variable(
      tf.zeros([size or 0 for size in value.shape], value.dtype),
      trainable=False,
      shape=value.shape,
      name=f"{name}/value",
    )
    kept.assign(value)
    return kept.read_value


def read(readers: Mapping[str, Callable[[], tf.Tensor]]) -> dict[str, tf.Tensor]:
  """Returns the values of the metrics whose readers HostMetrics.update returned."""
  return {name: reader() for name, reader in readers.items()}


def _call(metric_fn, tensors):
  try:
    # An absolute scope: the names of the metrics' variables must not depend on the loop around.
    with tf.name_scope(""):
      return metric_fn(**tensors) if isinstance(tensors, dict) else metric_fn(*tensors)
  except errors.OctetError:
    raise
  except Exception as error:
    shapes = ", ".join(
      f"{path} {leaf.dtype.name}{list(leaf.shape)}"
      for path, leaf in elements.named_leaves((tensors,), ["tensors"])
    )
    raise errors.ModelFnError(
      f"metric_fn {spec.name_of(metric_fn)} failed, given {shapes}: {type(error).__name__}: {error}"
    ) from error


def _value_after_update(value, update_op):
  """Returns the value of a tf.compat.v1.metrics pair after its update.

  The update op usually returns it. If it returns something else, such as the confusion matrix of
  mean_iou, this reads the value after the update.
  """
  if (
    isinstance(update_op, tf.Operation)
    or update_op.shape != value.shape
    or update_op.dtype != value.dtype
  ):
    operation = update_op if isinstance(update_op, tf.Operation) else update_op.op
    with tf.control_dependencies([operation]):
      return tf.identity(value)
  return tf.identity(update_op)
