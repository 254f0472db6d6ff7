"""tf.contrib.layers, and what slim has of it: layers as functions, in scopes and with variables
named as they were (`Conv/weights`, `fully_connected/biases`, `BatchNorm/beta`, `LayerNorm/gamma`).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.v1 import overlay
from trainer.compat.v1.contrib.arg_scopes import add_arg_scope
from trainer.compat.v1.contrib.regularizers import (
  apply_regularization,
  l1_l2_regularizer,
  l1_regularizer,
  l2_regularizer,
  sum_regularizer,
  variance_scaling_initializer,
  xavier_initializer,
  xavier_initializer_conv2d,
)
from trainer.compat.v1.layers import convolutional, normalization, separable

__all__ = [
  "apply_regularization",
  "l1_l2_regularizer",
  "l1_regularizer",
  "l2_regularizer",
  "sum_regularizer",
  "variance_scaling_initializer",
  "xavier_initializer",
  "xavier_initializer_conv2d",
]

v1 = tf.compat.v1

_ZEROS = v1.zeros_initializer()


def model_variable(name: str, shape: Sequence[int], **kwargs: Any) -> tf.Variable:
  """A variable that is in MODEL_VARIABLES too."""
  collections = kwargs.pop("collections", None) or []
  variable = v1.get_variable(name, shape, **kwargs)
  for key in [*collections, v1.GraphKeys.MODEL_VARIABLES]:
    if not any(variable is one for one in v1.get_collection(key)):
      v1.add_to_collection(key, variable)
  return variable


def _collections_of(given: Any, name: str) -> list[str]:
  found = given.get(name) if isinstance(given, dict) else given
  return [found] if isinstance(found, str) else list(found or [])


def _finished(
  outputs: tf.Tensor,
  activation_fn: Callable | None,
  normalizer_fn: Callable | None,
  normalizer_params: dict[str, Any] | None,
  add_bias: Callable[[tf.Tensor], tf.Tensor] | None,
  collections: Any,
  alias: str,
) -> tf.Tensor:
  """Normalizes or adds the bias, activates, and collects what comes out."""
  if normalizer_fn is not None:
    outputs = normalizer_fn(outputs, **(normalizer_params or {}))
  elif add_bias is not None:
    outputs = add_bias(outputs)
  if activation_fn is not None:
    outputs = activation_fn(outputs)
  return _collected(outputs, collections, alias)


def _collected(outputs: tf.Tensor, collections: Any, alias: str) -> tf.Tensor:
  if collections:
    outputs.aliases = [alias]
    v1.add_to_collections(collections, outputs)
  return outputs


@add_arg_scope
def fully_connected(
  inputs: tf.Tensor,
  num_outputs: int,
  activation_fn: Callable | None = tf.nn.relu,
  normalizer_fn: Callable | None = None,
  normalizer_params: dict[str, Any] | None = None,
  weights_initializer: Any = None,
  weights_regularizer: Callable | None = None,
  biases_initializer: Any = _ZEROS,
  biases_regularizer: Callable | None = None,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
) -> tf.Tensor:
  """`activation_fn(inputs · weights + biases)` over the last axis."""
  with v1.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as found:
    inputs = tf.convert_to_tensor(inputs)
    variable = functools.partial(model_variable, dtype=inputs.dtype, trainable=trainable)
    weights = variable(
      "weights",
      [int(inputs.shape[-1]), int(num_outputs)],
      initializer=weights_initializer or xavier_initializer(),
      regularizer=weights_regularizer,
      collections=_collections_of(variables_collections, "weights"),
    )
    biases = None
    if normalizer_fn is None and biases_initializer is not None:
      biases = variable(
        "biases",
        [int(num_outputs)],
        initializer=biases_initializer,
        regularizer=biases_regularizer,
        collections=_collections_of(variables_collections, "biases"),
      )
    outputs = tf.tensordot(inputs, weights, [[inputs.shape.rank - 1], [0]])
    add_bias = None if biases is None else lambda tensor: tf.nn.bias_add(tensor, biases)
    return _finished(
      outputs,
      activation_fn,
      normalizer_fn,
      normalizer_params,
      add_bias,
      outputs_collections,
      found.original_name_scope.rstrip("/"),
    )


linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)


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
    biases_initializer: Any = _ZEROS,
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
      return _finished(
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


def _scoped(name: str, function: Callable) -> Callable:
  function.__name__ = function.__qualname__ = name
  return add_arg_scope(function)


conv1d = _scoped("conv1d", _convolution(convolutional.Conv1D, "Conv", "kernel", _NAMES))
conv2d = _scoped("conv2d", _convolution(convolutional.Conv2D, "Conv", "kernel", _NAMES))
conv3d = _scoped("conv3d", _convolution(convolutional.Conv3D, "Conv", "kernel", _NAMES))
convolution = convolution2d = conv2d
conv2d_transpose = _scoped(
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
  biases_initializer: Any = _ZEROS,
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
    return _finished(
      outputs,
      activation_fn,
      normalizer_fn,
      normalizer_params,
      add_bias,
      outputs_collections,
      found.original_name_scope.rstrip("/"),
    )


@add_arg_scope
def batch_norm(
  inputs: tf.Tensor,
  decay: float = 0.999,
  center: bool = True,
  scale: bool = False,
  epsilon: float = 0.001,
  activation_fn: Callable | None = None,
  param_initializers: dict[str, Any] | None = None,
  param_regularizers: dict[str, Any] | None = None,
  updates_collections: Any = v1.GraphKeys.UPDATE_OPS,
  is_training: Any = True,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  fused: bool | None = None,
  data_format: str = "NHWC",
  scope: Any = None,
  **unsupported: Any,
) -> tf.Tensor:
  """Batch normalization; see tf.layers.batch_normalization."""
  del variables_collections
  for name, value in unsupported.items():
    if value:
      raise ValueError(f"contrib.layers.batch_norm({name}=...) is not supported.")
  initial, penalties = param_initializers or {}, param_regularizers or {}
  with v1.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as found:
    layer = normalization.BatchNormalization(
      axis=1 if data_format.startswith("NC") else -1,
      momentum=decay,
      epsilon=epsilon,
      center=center,
      scale=scale,
      beta_initializer=initial.get("beta", "zeros"),
      gamma_initializer=initial.get("gamma", "ones"),
      moving_mean_initializer=initial.get("moving_mean", "zeros"),
      moving_variance_initializer=initial.get("moving_variance", "ones"),
      beta_regularizer=penalties.get("beta"),
      gamma_regularizer=penalties.get("gamma"),
      trainable=trainable,
      fused=fused,
      _scope=found,
      _reuse=reuse,
    )
    # Rows are a fused operation's images of one pixel: its variance is the unbiased one.
    as_images = fused is not False and inputs.shape.rank == 2
    if as_images:
      inputs = inputs[:, tf.newaxis, tf.newaxis]
    outputs = layer(inputs, training=is_training)
    if as_images:
      outputs = tf.squeeze(outputs, [1, 2])
    for variable in layer.variables:
      if not any(variable is one for one in v1.get_collection(v1.GraphKeys.MODEL_VARIABLES)):
        v1.add_to_collection(v1.GraphKeys.MODEL_VARIABLES, variable)
    if updates_collections is None:  # in place: who has the output has the update
      with tf.control_dependencies(layer.updates):
        outputs = tf.identity(outputs)
    if activation_fn is not None:
      outputs = activation_fn(outputs)
    return _collected(outputs, outputs_collections, found.original_name_scope.rstrip("/"))


@add_arg_scope
def layer_norm(
  inputs: tf.Tensor,
  center: bool = True,
  scale: bool = True,
  activation_fn: Callable | None = None,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  begin_norm_axis: int = 1,
  begin_params_axis: int = -1,
  scope: Any = None,
) -> tf.Tensor:
  """Layer normalization over the axes from begin_norm_axis on."""
  with v1.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as found:
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.rank
    shape = [int(size) for size in inputs.shape[begin_params_axis % rank :]]
    variable = functools.partial(model_variable, dtype=inputs.dtype, trainable=trainable)
    beta = gamma = None
    if center:
      beta = variable(
        "beta",
        shape,
        initializer=_ZEROS,
        collections=_collections_of(variables_collections, "beta"),
      )
    if scale:
      gamma = variable(
        "gamma",
        shape,
        initializer=v1.ones_initializer(),
        collections=_collections_of(variables_collections, "gamma"),
      )
    mean, variance = tf.nn.moments(inputs, list(range(begin_norm_axis % rank, rank)), keepdims=True)
    epsilon = 1e-3 if inputs.dtype == tf.float16 else 1e-12
    outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
    outputs.set_shape(inputs.shape)
    if activation_fn is not None:
      outputs = activation_fn(outputs)
    return _collected(outputs, outputs_collections, found.original_name_scope.rstrip("/"))


def _pool(kind: str, default_scope: str) -> Callable[..., tf.Tensor]:
  def pool(
    inputs: tf.Tensor,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: Any = None,
  ) -> tf.Tensor:
    with v1.name_scope(scope, default_scope, [inputs]) as found:
      window = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
      strides = [stride] * 2 if isinstance(stride, int) else list(stride)
      outputs = tf.nn.pool(inputs, window, kind, strides, padding.upper(), data_format)
      return _collected(outputs, outputs_collections, found.rstrip("/"))

  return pool


max_pool2d = _scoped("max_pool2d", _pool("MAX", "MaxPool2D"))
avg_pool2d = _scoped("avg_pool2d", _pool("AVG", "AvgPool2D"))


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
  """Keeps a share of the inputs, in training."""
  with v1.name_scope(scope, "Dropout", [inputs]) as found:
    from trainer.compat.v1.layers import core

    layer = core.Dropout(1 - keep_prob, noise_shape, seed)
    outputs = layer.call(tf.convert_to_tensor(inputs), training=is_training)
    return _collected(outputs, outputs_collections, found.rstrip("/"))


@add_arg_scope
def flatten(inputs: tf.Tensor, outputs_collections: Any = None, scope: Any = None) -> tf.Tensor:
  """[batch, ...] to [batch, product of the others]."""
  with v1.name_scope(scope, "Flatten", [inputs]) as found:
    from trainer.compat.v1.layers import core

    outputs = core.Flatten().call(tf.convert_to_tensor(inputs))
    return _collected(outputs, outputs_collections, found.rstrip("/"))


@add_arg_scope
def bias_add(
  inputs: tf.Tensor,
  activation_fn: Callable | None = None,
  initializer: Any = _ZEROS,
  regularizer: Callable | None = None,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
) -> tf.Tensor:
  """Adds a bias over the last axis."""
  with v1.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as found:
    biases = model_variable(
      "biases",
      [int(inputs.shape[-1])],
      dtype=inputs.dtype,
      initializer=initializer,
      regularizer=regularizer,
      trainable=trainable,
      collections=_collections_of(variables_collections, "biases"),
    )
    outputs = tf.nn.bias_add(inputs, biases)
    if activation_fn is not None:
      outputs = activation_fn(outputs)
    return _collected(outputs, outputs_collections, found.original_name_scope.rstrip("/"))


@add_arg_scope
def one_hot_encoding(
  labels: tf.Tensor,
  num_classes: int,
  on_value: float = 1.0,
  off_value: float = 0.0,
  outputs_collections: Any = None,
  scope: Any = None,
) -> tf.Tensor:
  """Labels as one-hot rows."""
  with v1.name_scope(scope, "OneHotEncoding", [labels]) as found:
    if labels.dtype == tf.int32:
      labels = tf.cast(labels, tf.int64)
    outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
    return _collected(outputs, outputs_collections, found.rstrip("/"))


@add_arg_scope
def softmax(logits: tf.Tensor, scope: Any = None) -> tf.Tensor:
  """Softmax over the last axis."""
  with v1.name_scope(scope, "softmax", [logits]):
    return tf.nn.softmax(logits)


def repeat(
  inputs: tf.Tensor, repetitions: int, layer: Callable, *args: Any, **kwargs: Any
) -> tf.Tensor:
  """The same layer several times, in the scopes `<name>_1`, `<name>_2`, ..."""
  scope = kwargs.pop("scope", None)
  with v1.variable_scope(scope, "Repeat", [inputs]):
    name = scope or getattr(layer, "__name__", "repeat")
    for index in range(repetitions):
      inputs = layer(inputs, *args, scope=f"{name}_{index + 1}", **kwargs)
    return inputs


def stack(
  inputs: tf.Tensor, layer: Callable, stack_args: Sequence[Any], **kwargs: Any
) -> tf.Tensor:
  """A layer with each of several arguments in turn, in the scopes `<name>_1`, `<name>_2`, ..."""
  scope = kwargs.pop("scope", None)
  with v1.variable_scope(scope, "Stack", [inputs]):
    name = scope or getattr(layer, "__name__", "stack")
    for index, given in enumerate(stack_args):
      given = given if isinstance(given, list | tuple) else [given]
      inputs = layer(inputs, *given, scope=f"{name}_{index + 1}", **kwargs)
    return inputs


__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.feature_column",))
