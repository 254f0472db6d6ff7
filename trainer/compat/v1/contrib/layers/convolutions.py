"""Convolutions."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.v1.contrib.arg_scopes import add_arg_scope
from trainer.compat.v1.contrib.layers.common import ZEROS, finished, model_variable, scoped
from trainer.compat.v1.contrib.regularizers import xavier_initializer
from trainer.compat.v1.layers import convolutional, separable

v1 = tf.compat.v1


def _convolution(
  cls: type, default_scope: str, kernel_name: str, names: dict[str, str]
) -> Callable[..., tf.Tensor]:
  """A function of contrib on a layer of tf.layers, whose variables have other names."""

  def renaming(getter: Callable, name: str, *args: Any, **kwargs: Any) -> Any:
    scope, _, last = name.rpartition("/")
    new = names.get(last, last)
    variable = getter(f"{scope}/{new}" if scope else new, *args, **kwargs)
    if not any(variable is one for one in v1.get_collection(v1.GraphKeys.MODEL_VARIABLES)):
      v1.add_to_collection(v1.GraphKeys.MODEL_VARIABLES, variable)
    return variable

  def convolve(
    inputs: tf.Tensor,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Callable | None = tf.nn.relu,
    normalizer_fn: Callable | None = None,
    normalizer_params: dict[str, Any] | None = None,
    weights_initializer: Any = None,
    weights_regularizer: Callable | None = None,
    biases_initializer: Any = ZEROS,
    biases_regularizer: Callable | None = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    **layer_arguments: Any,
  ) -> tf.Tensor:
    del variables_collections
    with v1.variable_scope(
      scope, default_scope, [inputs], reuse=reuse, custom_getter=renaming
    ) as found:
      use_bias = normalizer_fn is None and biases_initializer is not None
      dilation = {} if rate == 1 else dict(dilation_rate=rate)
      layer = cls(
        filters=num_outputs,
        kernel_size=kernel_size,
        strides=stride,
        padding=padding,
        data_format="channels_first" if (data_format or "").startswith("NC") else "channels_last",
        use_bias=use_bias,
        bias_initializer=biases_initializer,
        bias_regularizer=biases_regularizer,
        trainable=trainable,
        _scope=found,
        _reuse=reuse,
        **dilation,
        **{
          f"{kernel_name}_initializer": weights_initializer or xavier_initializer(),
          f"{kernel_name}_regularizer": weights_regularizer,
        },
        **layer_arguments,
      )
      return finished(
        layer(inputs),
        activation_fn,
        normalizer_fn,
        normalizer_params,
        None,
        outputs_collections,
        found.original_name_scope.rstrip("/"),
      )

  return convolve


_NAMES = {"kernel": "weights", "bias": "biases"}


conv1d = scoped("conv1d", _convolution(convolutional.Conv1D, "Conv", "kernel", _NAMES))
conv2d = scoped("conv2d", _convolution(convolutional.Conv2D, "Conv", "kernel", _NAMES))
conv3d = scoped("conv3d", _convolution(convolutional.Conv3D, "Conv", "kernel", _NAMES))
convolution = convolution2d = conv2d
conv2d_transpose = scoped(
  "conv2d_transpose",
  _convolution(convolutional.Conv2DTranspose, "Conv2d_transpose", "kernel", _NAMES),
)
_separable = _convolution(
  separable.SeparableConv2D,
  "SeparableConv2d",
  "pointwise",
  {
    "depthwise_kernel": "depthwise_weights",
    "pointwise_kernel": "pointwise_weights",
    "bias": "biases",
  },
)


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
  """A convolution of each channel, then one over all; without num_outputs, only the first."""
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
  rate: int = 1,
  activation_fn: Callable | None = tf.nn.relu,
  normalizer_fn: Callable | None = None,
  normalizer_params: dict[str, Any] | None = None,
  weights_initializer: Any = None,
  weights_regularizer: Callable | None = None,
  biases_initializer: Any = ZEROS,
  biases_regularizer: Callable | None = None,
  reuse: bool | None = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
  **_: Any,
) -> tf.Tensor:
  with v1.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse) as found:
    channels = int(inputs.shape[-1])
    height, width = (kernel_size,) * 2 if isinstance(kernel_size, int) else kernel_size
    down, right = (stride,) * 2 if isinstance(stride, int) else stride
    variable = functools.partial(model_variable, dtype=inputs.dtype, trainable=trainable)
    weights = variable(
      "depthwise_weights",
      [height, width, channels, depth_multiplier],
      initializer=weights_initializer or xavier_initializer(),
      regularizer=weights_regularizer,
    )
    outputs = tf.nn.depthwise_conv2d(
      inputs, weights, [1, down, right, 1], padding.upper(), dilations=[rate, rate]
    )
    biases = None
    if normalizer_fn is None and biases_initializer is not None:
      biases = variable(
        "biases",
        [channels * depth_multiplier],
        initializer=biases_initializer,
        regularizer=biases_regularizer,
      )
    add_bias = None if biases is None else lambda tensor: tf.nn.bias_add(tensor, biases)
    return finished(
      outputs,
      activation_fn,
      normalizer_fn,
      normalizer_params,
      add_bias,
      outputs_collections,
      found.original_name_scope.rstrip("/"),
    )
