"""Runs a metric_fn on the host: updates its metrics batch by batch and reads them at the end."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors, spec
from trainer.cli import notices
from trainer.inputs import elements
from trainer.internals import patches
from trainer.programs import exact_metrics
from trainer.tracing import variable_store

# The batches of a trial, see `_warn_of_batches`, and the relative difference that rounding makes.
_SIZES, _ROUNDING = (1, 15, 48), 1e-4
# How the names of float32 variables that are no counts begin.
_SUMS = ("total", "value")
# Operations that do not belong in a trial: somebody sees what they do.
_SEEN = re.compile("(Eager)?PyFunc|Print|Write")


class HostMetrics:
  """The metrics of an evaluation and their variables.

  A metric_fn makes new metrics at each call, as a model_fn makes new layers. So a VariableStore
  keeps their variables, as it does for a model_fn.

  Call `update` during the trace of a tf.function, and `reset` outside.

  Args:
    model: the store of the model, whose variables a metric_fn may read; None if there is no model.
    is_trial: whether these metrics try a metric_fn, see `_warn_of_batches`.
  """

  def __init__(
    self, model: variable_store.VariableStore | None = None, is_trial: bool = False
  ) -> None:
    self._model = model
    self._store = variable_store.VariableStore(tf.distribute.get_strategy())
    self._is_tried = is_trial

  def reset(self) -> None:
    """Sets the variables of all metrics to their initial values."""
    self._store.reset()

  def warn_of_large_counts(self) -> None:
    """Warns of each float32 count that has reached 2^24: it may have missed examples."""
    for variable in (*self._store.variables.values(), *self._store.local_variables()):
      name = variable.name.partition(":")[0]
      # A sum, or a result, may be large after a few examples.
      is_count = variable.dtype == tf.float32 and not name.rpartition("/")[2].startswith(_SUMS)
      if is_count and np.max(np.abs(variable.numpy()), initial=0) >= exact_metrics.LARGEST_COUNT:
        notices.warn_once(
          f"The metrics' variable {name} has reached {exact_metrics.LARGEST_COUNT:,}, up to which "
          "float32 counts: a metric that uses it may be wrong. Keras's own metrics count in "
          'float64; in your own metric: add_variable(..., dtype="float64").'
        )

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
    if metric_fn is not None and not self._is_tried:
      self._is_tried = True
      with tf.init_scope():
        _warn_of_batches(metric_fn, tensors, self._model)
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
  leaves = tf.nest.flatten(tensors)
  examples = lambda: tf.shape(leaves[0], tf.int64)[0] if leaves else 1
  try:
    # An absolute scope: the names of the metrics' variables must not depend on the loop around.
    with tf.name_scope(""), patches.set_context(exact_metrics.EXAMPLES, examples):
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


def _warn_of_batches(metric_fn, tensors, model):
  """Warns of each metric that depends on how the examples fall into batches.

  Such a metric averages batches, for example by a mean of means, or the root of each batch's mean.
  This counts random examples in one batch, and then in three.
  """
  if getattr(metric_fn, "is_of_2_15", False):  # It keeps TensorFlow 2.15's numbers, of batches too.
    return
  leaves = tf.nest.flatten(tensors)
  if not leaves or any(leaf.shape.rank is None for leaf in leaves):
    return
  # A list also where a program has turned TensorFlow's new shapes off.
  specs = [tf.TensorSpec([None, *leaf.shape.as_list()[1:]], leaf.dtype) for leaf in leaves]
  trial = HostMetrics(model, is_trial=True)

  def count(*leaves):
    return read(trial.update(metric_fn, tf.nest.pack_sequence_as(tensors, leaves)))

  name = f"metric_fn {spec.name_of(metric_fn)}"
  try:
    counted = tf.function(count, autograph=False).get_concrete_function(*specs)
    if any(map(_SEEN.match, _operation_types(counted.graph))):
      return
    random = np.random.RandomState(0)
    leaves = [_random_examples(leaf.shape[1:], leaf.dtype, random) for leaf in specs]
    whole = counted(*leaves)
    trial.reset()
    for batch in zip(*(tf.split(leaf, _SIZES) for leaf in leaves), strict=True):
      parts = counted(*batch)
  except (tf.errors.OpError, errors.OctetError) as error:
    # Random examples may be no examples for it. A mistake in it shows in the evaluation itself.
    logging.info("%s: not tried with batches of several sizes: %s", name, error)
    return
  for metric in whole:
    values = [each[metric].numpy() for each in (whole, parts)]
    if values[0].dtype.kind in "fiu" and not np.allclose(*values, _ROUNDING, 1e-6, equal_nan=True):
      of_whole, of_parts = (np.array2string(each, precision=4) for each in values)
      notices.warn_once(
        f"{name}: the metric {metric!r} depends on the sizes of batches. Of the same random "
        f"examples it is {of_whole} in one batch, and {of_parts} in batches of {_SIZES}. Update it "
        "with a value of each example, [batch] or [batch, 1], and let it take the mean."
      )


def _operation_types(graph):
  definition = graph.as_graph_def()
  nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
  return {node.op for node in nodes}


def _random_examples(shape, dtype, random):
  shape = [sum(_SIZES), *(size or 3 for size in shape)]
  if not dtype.is_floating:
    numbers = random.randint(2, size=shape)
    return tf.strings.as_string(numbers) if dtype == tf.string else tf.cast(numbers, dtype)
  values = random.uniform(size=shape)
  if len(shape) > 1:  # The first two classes are more probable, as are the labels above.
    values /= 1 + np.arange(shape[-1])
  return tf.constant(values, dtype)
