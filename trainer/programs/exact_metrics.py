"""Keras's metrics in a metric_fn: each example counts once, in float64.

Keras takes the mean of some metrics over the last axis. Of a vector [batch], this is the mean of
the batch, and Keras then counts the batch as one example: the metric would depend on the size of
the batches and on the number of cores. float32 counts no further than 2^24, such as the pixels of
16 images of 1,024 × 1,024. Metrics run on the host, where float64 is cheap.
"""

import contextvars
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from trainer.internals import keras_internals, patches

# While a metric_fn counts a batch: returns the number of its examples, an int64 scalar. None
# outside, and in a program of trainer.compat, which keeps the numbers of TensorFlow 2.15.
EXAMPLES: contextvars.ContextVar[Callable[[], tf.Tensor] | None] = contextvars.ContextVar(
  "examples of metrics", default=None
)

# The largest number up to which float32 has every integer.
LARGEST_COUNT = 2**24

# Functions that are means over the last axis, of a value for each place. The value of an example
# of a vector is clear. A cosine or a cross-entropy of classes, for instance, needs an axis.
_MEANS = [
  *(keras.losses.mean_absolute_error, keras.losses.mean_absolute_percentage_error),
  *(keras.losses.mean_squared_error, keras.losses.mean_squared_logarithmic_error),
  *(keras.losses.binary_crossentropy, keras.losses.binary_focal_crossentropy),
  *(keras.losses.hinge, keras.losses.squared_hinge, keras.losses.huber),
  *(keras.losses.log_cosh, keras.losses.poisson),
]


@patches.replaces(keras.metrics.Metric, "__init__", inside=EXAMPLES)
def _init(original, metric, dtype=None, name=None):
  # None and "int" are Keras's defaults; a copy of a user's metric asks for "float32".
  if dtype in (None, "float32", "int") and keras_internals.is_own(metric):
    dtype = "float64"
  original(metric, dtype, name)


@patches.replaces(keras.metrics.Metric, "add_variable", inside=EXAMPLES)
def _add_variable(original, metric, *args, **kwargs):
  if keras_internals.is_own(metric):  # Some of Keras's metrics ask for no dtype: float32.
    kwargs["dtype"] = kwargs.get("dtype") or metric.dtype
  return original(metric, *args, **kwargs)


@patches.replaces(keras.metrics.Metric, "__setattr__", inside=EXAMPLES)
def _set(original, metric, name, value):
  # In float64 the threshold 0.3 would lie below the prediction 0.3, which is float32.
  is_threshold = name in ("threshold", "thresholds", "_thresholds") and value is not None
  if is_threshold and keras_internals.is_own(metric):
    value = np.float32(value).astype(np.float64).tolist()
  original(metric, name, value)


@patches.replaces(keras.metrics.MeanMetricWrapper, "update_state", inside=EXAMPLES)
def _update_wrapper(original, metric, y_true, y_pred, sample_weight=None):
  if keras_internals.function_of(metric) in _MEANS and np.ndim(y_true) == np.ndim(y_pred) == 1:
    mask = keras_internals.mask_of(y_pred)
    y_true, y_pred = (tf.expand_dims(each, -1) for each in (y_true, y_pred))
    keras_internals.set_mask(y_pred, mask)
  return original(metric, y_true, y_pred, sample_weight)


@patches.replaces(keras.metrics.Mean, "update_state", inside=EXAMPLES)
def _update_mean(original, metric, values, sample_weight=None):
  # A scalar is a value of the batch, such as its mean. It counts for each example, like the loss.
  if sample_weight is None and np.ndim(values) == 0:
    values = tf.fill([EXAMPLES.get()()], values)
  return original(metric, values, sample_weight)


@patches.replaces(keras.metrics.IoU, "result")
def _iou(original, metric):
  """Keras computes the result in float32, whatever the dtype of its counts."""
  if metric.dtype != "float64":
    return original(metric)
  counts = tf.convert_to_tensor(metric.total_cm)
  right = tf.linalg.diag_part(counts)
  either = tf.reduce_sum(counts, 0) + tf.reduce_sum(counts, 1) - right
  right, either = (tf.gather(each, list(metric.target_class_ids)) for each in (right, either))
  present = tf.reduce_sum(tf.cast(either > 0, tf.float64))
  return tf.math.divide_no_nan(tf.reduce_sum(tf.math.divide_no_nan(right, either)), present)
