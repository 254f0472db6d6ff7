"""Convolutions."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer.compat.layers import legacy
from trainer.compat.layers.contrib import common
from trainer.compat.layers.contrib.arg_scopes import add_arg_scope
from trainer.compat.layers.contrib.common import Options, scoped
from trainer.compat.layers.contrib.regularizers import xavier_initializer

_OPTIONS = [field.name for field in dataclasses.fields(Options)]


def _convolution(
  cls: type,
  default_scope: str,
  kernel_name: str = "kernel",
  names: Mapping[str, str] = common.NAMES,
) -> Callable[..., tf.Tensor]:
  """Makes a function of contrib from a layer of tf.layers, with contrib's names of variables."""

  def convolve(
    inputs: tf.Tensor,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    *options: Any,
    **named: Any,
  ) -> tf.Tensor:
    given = Options(*options, **{name: named.pop(name) for name in _OPTIONS if name in named})
    return given.of_tf_layers(
      cls,
      default_scope,
      inputs,
      kernel_name,
      names,
      filters=num_outputs,
      kernel_size=kernel_size,
      strides=stride,
      padding=padding,
      data_format="channels_first" if (data_format or "").startswith("NC") else "channels_last",
      **({} if rate == 1 else dict(dilation_rate=rate)),
      **named,
    )

  return convolve


conv1d = scoped("conv1d", _convolution(legacy.Conv1D, "Conv"))
conv2d = scoped("conv2d", _convolution(legacy.Conv2D, "Conv"))
conv3d = scoped("conv3d", _convolution(legacy.Conv3D, "Conv"))
convolution = convolution2d = conv2d
conv2d_transpose = scoped(
  "conv2d_transpose", _convolution(legacy.Conv2DTranspose, "Conv2d_transpose")
)
_NAMES = {
  "depthwise_kernel": "depthwise_weights",
  "pointwise_kernel": "pointwise_weights",
  "bias": "biases",
}
_separable = _convolution(legacy.SeparableConv2D, "SeparableConv2d", "pointwise", _NAMES)


@add_arg_scope
def separable_conv2d(
  inputs: tf.Tensor,
  num_outputs: int | None,
  kernel_size: Any,
  depth_multiplier: int = 1,
  stride: Any = 1,
  padding: str = "SAME",
  **kwargs: Any,
) -> tf.Tensor:
  """Convolves each channel, then all together; without num_outputs, only each channel."""
  if num_outputs is not None:
    weights = kwargs.get("weights_initializer") or xavier_initializer()
    regularizer = kwargs.get("weights_regularizer")
    return _separable(
      inputs,
      num_outputs,
      kernel_size,
      stride,
      padding,
      depth_multiplier=depth_multiplier,
      depthwise_initializer=weights,
      depthwise_regularizer=regularizer,
      **dict(kwargs, weights_initializer=kwargs.pop("pointwise_initializer", None) or weights),
    )
  return _depthwise_conv2d(inputs, kernel_size, depth_multiplier, stride, padding, **kwargs)


separable_convolution2d = separable_conv2d


def _depthwise_conv2d(
  inputs: tf.Tensor,
  kernel_size: Any,
  depth_multiplier: int,
  stride: Any,
  padding: str,
  **named: Any,
) -> tf.Tensor:
  given = Options(**{name: value for name, value in named.items() if name in _OPTIONS})
  return given.of_tf_layers(
    legacy.DepthwiseConv2D,
    "SeparableConv2d",
    inputs,
    "depthwise",
    {name: _NAMES[name] for name in ("depthwise_kernel", "bias")},
    kernel_size=kernel_size,
    strides=stride,
    padding=padding,
    depth_multiplier=depth_multiplier,
    dilation_rate=named.get("rate", 1),
  )
