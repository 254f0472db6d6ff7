"""eval_metrics: what a metric_fn returns, updated batch by batch on the host and read at the
end.
"""

import keras
import tensorflow as tf

from trainer import errors, spec
from trainer.inputs import elements
from trainer.tracing import variable_store


class HostMetrics:
  """The metrics of one evaluation, with the variables that they count in.

  A metric_fn makes its metrics anew each time it is traced, as a model_fn does its layers: the same
  store of variables serves it. Its methods but `reset` are called while a tf.function is traced.
  """

  def __init__(self):
    self._store = variable_store.VariableStore(tf.distribute.get_strategy())
    self._metrics = {}

  def reset(self):
    """Starts counting anew."""
    self._store.reset()

  def update(self, metric_fn, tensors):
    """Counts a batch: tensors as the metric_fn takes them, a list or a dict; (None, {}) for no
    metrics.
    """

    def update():
      metrics = {} if metric_fn is None else _call(metric_fn, tensors)
      spec.check_metrics(metrics)
      self._metrics = {name: self._readable(name, metric) for name, metric in metrics.items()}

    self._store.run(update, (), step=tf.constant(0, tf.int64))

  def results(self):
    """dict of name → tensor, over all that was counted."""
    return {name: read() for name, read in self._metrics.items()}

  def _readable(self, name, metric):
    """A function that reads the metric where the tensors of this trace are out of reach: after
    the loop that it is updated in.
    """
    if isinstance(metric, keras.metrics.Metric):
      return metric.result
    if not (isinstance(metric, tuple | list) and len(metric) == 2):
      raise errors.SpecError(
        f"eval_metrics: {name!r} must be a Keras metric or a "
        f"tf.compat.v1.metrics pair; got {metric!r}"[:300]
      )
    value = _value_after_update(*metric)
    kept = tf.Variable(tf.zeros(value.shape, value.dtype), trainable=False, name=f"{name}/value")
    kept.assign(value)
    return kept.read_value


def scalars(result):
  """Those of an evaluation's result (dict) that are numbers, and no arrays."""
  return {name: value for name, value in result.items() if isinstance(value, int | float)}


def scalar(result, metric, setting):
  """The value of a metric in the result of an evaluation; SettingError under the setting's name
  if there is none, or if it is no scalar.
  """
  found = scalars(result)
  if metric not in found:
    raise errors.SettingError(
      f"{setting} is {metric!r}; the evaluation gives "
      f"{', '.join(sorted(set(found) - {'global_step'}))}."
    )
  return found[metric]


def _call(metric_fn, tensors):
  try:
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
  """Of a tf.compat.v1.metrics pair: the update's own result, but where what it updates is
  something else, such as a confusion matrix.
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
