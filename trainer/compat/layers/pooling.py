"""Average and maximum over windows in one, two and three dimensions."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.layers import base, convolutional


class _Pooling(base.Layer):
  """The common part of poolings."""

  rank = 0
  # Not tf.nn.pool: it refuses strides longer than the window, and ResNets have such strides.
  pool: Callable[..., tf.Tensor]

  def __init__(
    self,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    **layer: Any,
  ):
    super().__init__(**layer)
    self.pool_size = base.several(pool_size, self.rank, "pool_size")
    self.strides = base.several(strides, self.rank, "strides")
    self.padding = padding.upper()
    self.data_format = data_format

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    return self.pool(
      inputs,
      self.pool_size,
      self.strides,
      self.padding,
      convolutional.FORMATS[self.rank][self.data_format == "channels_first"],
    )


class AveragePooling1D(_Pooling):
  """The average of windows of steps."""

  rank, pool = 1, staticmethod(tf.nn.avg_pool)


class AveragePooling2D(_Pooling):
  """The average of windows of height and width."""

  rank, pool = 2, staticmethod(tf.nn.avg_pool)


class AveragePooling3D(_Pooling):
  """The average of windows of depth, height and width."""

  rank, pool = 3, staticmethod(tf.nn.avg_pool)


class MaxPooling1D(_Pooling):
  """The maximum of windows of steps."""

  rank, pool = 1, staticmethod(tf.nn.max_pool)


class MaxPooling2D(_Pooling):
  """The maximum of windows of height and width."""

  rank, pool = 2, staticmethod(tf.nn.max_pool)


class MaxPooling3D(_Pooling):
  """The maximum of windows of depth, height and width."""

  rank, pool = 3, staticmethod(tf.nn.max_pool)


average_pooling1d = base.function(AveragePooling1D)
average_pooling2d = base.function(AveragePooling2D)
average_pooling3d = base.function(AveragePooling3D)
max_pooling1d = base.function(MaxPooling1D)
max_pooling2d = base.function(MaxPooling2D)
max_pooling3d = base.function(MaxPooling3D)
