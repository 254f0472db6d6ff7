"""Convolutions and transposed convolutions in one, two and three dimensions."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.layers import base

FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


class Convolution(base.Layer):
  """The common part of convolutions."""

  rank = 0

  def __init__(
    self,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = 1,
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = "zeros",
    kernel_regularizer: Callable | None = None,
    bias_regularizer: Callable | None = None,
    activity_regularizer: Callable | None = None,
    kernel_constraint: Callable | None = None,
    bias_constraint: Callable | None = None,
    **layer: Any,
  ):
    super().__init__(activity_regularizer=activity_regularizer, **layer)
    self.filters = int(filters)
    self.kernel_size = base.several(kernel_size, self.rank, "kernel_size")
    self.strides = base.several(strides, self.rank, "strides")
    self.dilation_rate = base.several(dilation_rate, self.rank, "dilation_rate")
    self.padding = padding.lower()
    self.data_format = data_format
    self.activation = base.activation(activation)
    self.use_bias = use_bias
    self._of_kernel = base.of_weight(kernel_initializer, kernel_regularizer, kernel_constraint)
    self._of_bias = base.of_weight(bias_initializer, bias_regularizer, bias_constraint)

  @property
  def _is_channels_first(self) -> bool:
    return self.data_format == "channels_first"

  @property
  def _format(self) -> str:
    return FORMATS[self.rank][self._is_channels_first]

  def _channels(self, input_shape: Any) -> int:
    channels = input_shape.as_list()[1 if self._is_channels_first else -1]
    if channels is None:
      raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
    return int(channels)

  def build(self, input_shape: Any) -> None:
    shape = self._kernel_shape(self._channels(input_shape))
    self.kernel = self.add_weight("kernel", shape, **self._of_kernel)
    self._build_bias()
    self.built = True

  def _build_bias(self) -> None:
    self.bias = None
    if self.use_bias:
      self.bias = self.add_weight("bias", [self.filters], **self._of_bias)

  def _kernel_shape(self, channels: int) -> list[int]:
    return [*self.kernel_size, channels, self.filters]

  def _padded(self, inputs: tf.Tensor) -> tuple[tf.Tensor, str]:
    """Returns (inputs, the padding still to apply)."""
    if self.padding != "causal":
      return inputs, self.padding
    before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
    pads = [[0, 0], [0, 0], [0, 0]]
    pads[2 if self._is_channels_first else 1] = [before, 0]
    return tf.pad(inputs, pads), "valid"

  def _convolved(self, inputs: tf.Tensor) -> tf.Tensor:
    inputs, padding = self._padded(inputs)
    return tf.nn.convolution(
      inputs, self.kernel, self.strides, padding.upper(), self._format, self.dilation_rate
    )

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    outputs = self._convolved(inputs)
    if self.bias is not None:
      outputs = tf.nn.bias_add(outputs, self.bias, "NC..." if self._is_channels_first else "N...C")
    return outputs if self.activation is None else self.activation(outputs)


class Conv1D(Convolution):
  """A convolution over [batch, steps, channels]."""

  rank = 1


class Conv2D(Convolution):
  """A convolution over [batch, height, width, channels]."""

  rank = 2


class Conv3D(Convolution):
  """A convolution over [batch, depth, height, width, channels]."""

  rank = 3


class _Transposed(Convolution):
  """The common part of transposed convolutions."""

  def _kernel_shape(self, channels: int) -> list[int]:
    return [*self.kernel_size, self.filters, channels]

  def _convolved(self, inputs: tf.Tensor) -> tf.Tensor:
    first = 2 if self._is_channels_first else 1
    known, sizes = inputs.shape.as_list(), []
    for axis in range(self.rank):
      size = known[first + axis]
      size = tf.shape(inputs)[first + axis] if size is None else int(size)
      size = size * self.strides[axis]
      if self.padding == "valid":
        size += max(self.kernel_size[axis] - self.strides[axis], 0)
      sizes.append(size)
    batch = tf.shape(inputs)[0] if known[0] is None else known[0]
    channels_first = [batch, self.filters, *sizes]
    shape = channels_first if self._is_channels_first else [batch, *sizes, self.filters]
    outputs = tf.nn.conv_transpose(
      inputs, self.kernel, shape, self.strides, self.padding.upper(), self._format
    )
    outputs.set_shape([size if isinstance(size, int) else None for size in shape])
    return outputs


class Conv2DTranspose(_Transposed):
  """The gradient of a Conv2D, as a layer."""

  rank = 2


class Conv3DTranspose(_Transposed):
  """The gradient of a Conv3D, as a layer."""

  rank = 3


conv1d = base.function(Conv1D)
conv2d = base.function(Conv2D)
conv2d_transpose = base.function(Conv2DTranspose)
conv3d = base.function(Conv3D)
conv3d_transpose = base.function(Conv3DTranspose)
