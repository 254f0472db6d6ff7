"""Layers without variables: pooling, dropout, and others."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.layers import legacy
from trainer.compat.layers.contrib.arg_scopes import add_arg_scope
from trainer.compat.layers.contrib.common import collected, scoped

v1 = tf.compat.v1


def _pool(
  function: Callable[..., tf.Tensor], default_scope: str, axes: int = 2
) -> Callable[..., tf.Tensor]:
  def pool(
    inputs: tf.Tensor,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC" if axes == 2 else "NDHWC",
    outputs_collections: Any = None,
    scope: Any = None,
  ) -> tf.Tensor:
    with v1.name_scope(scope, default_scope, [inputs]) as found:
      window = [kernel_size] * axes if isinstance(kernel_size, int) else list(kernel_size)
      strides = [stride] * axes if isinstance(stride, int) else list(stride)
      outputs = function(inputs, window, strides, padding.upper(), data_format)
      return collected(outputs, outputs_collections, found.rstrip("/"))

  return pool


max_pool2d = scoped("max_pool2d", _pool(tf.nn.max_pool, "MaxPool2D"))
avg_pool2d = scoped("avg_pool2d", _pool(tf.nn.avg_pool, "AvgPool2D"))
max_pool3d = scoped("max_pool3d", _pool(tf.nn.max_pool3d, "MaxPool3D", axes=3))
avg_pool3d = scoped("avg_pool3d", _pool(tf.nn.avg_pool3d, "AvgPool3D", axes=3))


@add_arg_scope
def dropout(
  inputs: tf.Tensor,
  keep_prob: Any = 0.5,
  noise_shape: Any = None,
  is_training: Any = True,
  outputs_collections: Any = None,
  scope: Any = None,
  seed: int | None = None,
) -> tf.Tensor:
  """Keeps a random share of the inputs, in training."""
  with v1.name_scope(scope, "Dropout", [inputs]) as found:
    layer = legacy.Dropout(1 - keep_prob, noise_shape, seed)
    outputs = layer.call(tf.convert_to_tensor(inputs), training=is_training)
    return collected(outputs, outputs_collections, found.rstrip("/"))


@add_arg_scope
def flatten(inputs: tf.Tensor, outputs_collections: Any = None, scope: Any = None) -> tf.Tensor:
  """Reshapes [batch, ...] to [batch, product of the other axes]."""
  with v1.name_scope(scope, "Flatten", [inputs]) as found:
    outputs = legacy.Flatten().call(tf.convert_to_tensor(inputs))
    return collected(outputs, outputs_collections, found.rstrip("/"))


@add_arg_scope
def one_hot_encoding(
  labels: tf.Tensor,
  num_classes: int,
  on_value: float = 1.0,
  off_value: float = 0.0,
  outputs_collections: Any = None,
  scope: Any = None,
) -> tf.Tensor:
  """Returns labels as one-hot rows."""
  with v1.name_scope(scope, "OneHotEncoding", [labels]) as found:
    if labels.dtype == tf.int32:
      labels = tf.cast(labels, tf.int64)
    outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
    return collected(outputs, outputs_collections, found.rstrip("/"))


@add_arg_scope
def softmax(logits: tf.Tensor, scope: Any = None) -> tf.Tensor:
  """Softmax over the last axis."""
  with v1.name_scope(scope, "softmax", [logits]):
    return tf.nn.softmax(logits)
