"""Separable and depthwise convolutions, which convolve each channel alone."""

from typing import Any

import keras
import tensorflow as tf

from trainer.compat.layers import base, convolutional


class _Depthwise(convolutional.Convolution):
  """The common part of these convolutions.

  Args:
    depth_multiplier: the number of output channels for each channel.
    settings: Convolution's settings, and each part's `<part>_initializer`, `<part>_regularizer` and
      `<part>_constraint`.
  """

  rank = 2
  parts: tuple[str, ...] = ("depthwise",)

  def __init__(self, *args: Any, depth_multiplier: int = 1, **settings: Any):
    self.depth_multiplier = int(depth_multiplier)
    kinds = ("initializer", "regularizer", "constraint")
    self._of_part = {
      part: base.of_weight(*(settings.pop(f"{part}_{kind}", None) for kind in kinds))
      for part in self.parts
    }
    super().__init__(*args, **settings)

  def build(self, input_shape: Any) -> None:
    channels = self._channels(input_shape)
    shape = [*self.kernel_size, channels, self.depth_multiplier]
    of_part = self._of_part["depthwise"]
    self.depthwise_kernel = self.add_weight("depthwise_kernel", shape, **of_part)
    self._build_rest(channels * self.depth_multiplier)
    self._build_bias()
    self.built = True

  def _build_rest(self, channels: int) -> None:
    """Makes the variables other than the depthwise kernel and the bias."""
    self.filters = channels

  @property
  def _steps(self) -> tuple[int, ...]:
    return (1, 1, *self.strides) if self._is_channels_first else (1, *self.strides, 1)


class SeparableConv2D(_Depthwise):
  """Convolves each channel alone, and then all with a 1 × 1 kernel."""

  parts = ("depthwise", "pointwise")

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
    **settings: Any,
  ):
    place = filters, kernel_size, strides, padding, data_format, dilation_rate
    super().__init__(*place, activation, use_bias, depth_multiplier=depth_multiplier, **settings)

  def _build_rest(self, channels: int) -> None:
    shape = [*(1,) * self.rank, channels, self.filters]
    of_part = self._of_part["pointwise"]
    self.pointwise_kernel = self.add_weight("pointwise_kernel", shape, **of_part)

  def _convolved(self, inputs: tf.Tensor) -> tf.Tensor:
    return tf.nn.separable_conv2d(
      inputs,
      self.depthwise_kernel,
      self.pointwise_kernel,
      self._steps,
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
    inputs, padding = self._padded(inputs)
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


class DepthwiseConv2D(_Depthwise):
  """Convolves each channel alone.

  tf.layers had no such layer. Programs derive one from `tf.keras.layers.DepthwiseConv2D` and
  `tf.layers.Layer`, see base.Mixing; the arguments are Keras 2's.
  """

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
    **settings: Any,
  ):
    settings.setdefault("depthwise_initializer", "glorot_uniform")
    place = 0, kernel_size, strides, padding, data_format or "channels_last", dilation_rate
    super().__init__(*place, activation, use_bias, depth_multiplier=depth_multiplier, **settings)

  def _convolved(self, inputs: tf.Tensor) -> tf.Tensor:
    return tf.nn.depthwise_conv2d(
      inputs,
      self.depthwise_kernel,
      self._steps,
      self.padding.upper(),
      self._format,
      self.dilation_rate,
    )


separable_conv1d = base.function(SeparableConv1D)
separable_conv2d = base.function(SeparableConv2D)

base.stands_for(keras.layers.DepthwiseConv2D, DepthwiseConv2D)
base.stands_for(keras.layers.SeparableConv2D, SeparableConv2D)
