"""Convolutions of each channel by itself: separable ones, and depthwise ones."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer.compat.layers import base, convolutional


class SeparableConv2D(convolutional.Convolution):
  """A convolution of each channel by itself, and then one of 1 × 1 over all."""

  rank = 2

  def __init__(
    self,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = 1,
    depth_multiplier: int = 1,
    activation: Any = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    pointwise_initializer: Any = None,
    bias_initializer: Any = "zeros",
    depthwise_regularizer: Callable | None = None,
    pointwise_regularizer: Callable | None = None,
    bias_regularizer: Callable | None = None,
    activity_regularizer: Callable | None = None,
    depthwise_constraint: Callable | None = None,
    pointwise_constraint: Callable | None = None,
    bias_constraint: Callable | None = None,
    **layer: Any,
  ):
    super().__init__(
      filters,
      kernel_size,
      strides,
      padding,
      data_format,
      dilation_rate,
      activation=activation,
      use_bias=use_bias,
      bias_initializer=bias_initializer,
      bias_regularizer=bias_regularizer,
      activity_regularizer=activity_regularizer,
      bias_constraint=bias_constraint,
      **layer,
    )
    self.depth_multiplier = int(depth_multiplier)
    self._of_depthwise = base.of_weight(
      depthwise_initializer, depthwise_regularizer, depthwise_constraint
    )
    self._of_pointwise = base.of_weight(
      pointwise_initializer, pointwise_regularizer, pointwise_constraint
    )

  def build(self, input_shape: Any) -> None:
    channels = self._channels(input_shape)
    self.depthwise_kernel = self.add_weight(
      "depthwise_kernel", [*self.kernel_size, channels, self.depth_multiplier], **self._of_depthwise
    )
    self.pointwise_kernel = self.add_weight(
      "pointwise_kernel",
      [*(1,) * self.rank, channels * self.depth_multiplier, self.filters],
      **self._of_pointwise,
    )
    self._build_bias()
    self.built = True

  def _convolved(self, inputs: tf.Tensor) -> tf.Tensor:
    strides = (1, 1, *self.strides) if self._is_channels_first else (1, *self.strides, 1)
    return tf.nn.separable_conv2d(
      inputs,
      self.depthwise_kernel,
      self.pointwise_kernel,
      strides,
      self.padding.upper(),
      self._format,
      self.dilation_rate,
    )


class SeparableConv1D(SeparableConv2D):
  """As SeparableConv2D, over [batch, steps, channels]."""

  rank = 1

  def _convolved(self, inputs: tf.Tensor) -> tf.Tensor:
    axis = 2 if self._is_channels_first else 1
    step = self.strides * 2
    padding = self.padding
    if padding == "causal":
      before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
      pads = [[0, 0], [0, 0], [0, 0]]
      pads[axis] = [before, 0]
      inputs, padding = tf.pad(inputs, pads), "valid"
    outputs = tf.nn.separable_conv2d(
      tf.expand_dims(inputs, axis),
      tf.expand_dims(self.depthwise_kernel, 0),
      tf.expand_dims(self.pointwise_kernel, 0),
      (1, 1, *step) if self._is_channels_first else (1, *step, 1),
      padding.upper(),
      convolutional.FORMATS[2][self._is_channels_first],
      (1, *self.dilation_rate),
    )
    return tf.squeeze(outputs, [axis])


class DepthwiseConv2D(convolutional.Convolution):
  """A convolution of each channel by itself.

  tf.layers had none. Programs make one of `tf.keras.layers.DepthwiseConv2D` and `tf.layers.Layer`,
  see base.Mixing; the arguments are those of Keras 2.
  """

  rank = 2

  def __init__(
    self,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    depth_multiplier: int = 1,
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
    activation: Any = None,
    use_bias: bool = True,
    depthwise_initializer: Any = "glorot_uniform",
    bias_initializer: Any = "zeros",
    depthwise_regularizer: Callable | None = None,
    bias_regularizer: Callable | None = None,
    activity_regularizer: Callable | None = None,
    depthwise_constraint: Callable | None = None,
    bias_constraint: Callable | None = None,
    **layer: Any,
  ):
    super().__init__(
      0,
      kernel_size,
      strides,
      padding,
      data_format or "channels_last",
      dilation_rate,
      activation=activation,
      use_bias=use_bias,
      bias_initializer=bias_initializer,
      bias_regularizer=bias_regularizer,
      activity_regularizer=activity_regularizer,
      bias_constraint=bias_constraint,
      **layer,
    )
    self.depth_multiplier = int(depth_multiplier)
    self._of_depthwise = base.of_weight(
      depthwise_initializer, depthwise_regularizer, depthwise_constraint
    )

  def build(self, input_shape: Any) -> None:
    channels = self._channels(input_shape)
    shape = [*self.kernel_size, channels, self.depth_multiplier]
    self.depthwise_kernel = self.add_weight("depthwise_kernel", shape, **self._of_depthwise)
    self.filters = channels * self.depth_multiplier
    self._build_bias()
    self.built = True

  def _convolved(self, inputs: tf.Tensor) -> tf.Tensor:
    strides = (1, 1, *self.strides) if self._is_channels_first else (1, *self.strides, 1)
    return tf.nn.depthwise_conv2d(
      inputs, self.depthwise_kernel, strides, self.padding.upper(), self._format, self.dilation_rate
    )


base.stands_for(keras.layers.DepthwiseConv2D, DepthwiseConv2D)
base.stands_for(keras.layers.SeparableConv2D, SeparableConv2D)
