"""Batch normalization and layer normalization."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.layers import normalization
from trainer.compat.layers.contrib.arg_scopes import add_arg_scope
from trainer.compat.layers.contrib.common import activated, collect_once, shift_and_scale

v1 = tf.compat.v1


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
      raise ValueError(f"Octet does not support contrib.layers.batch_norm({name}=...).")
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
    # Treat rows as images of one pixel: the fused operation computes the unbiased variance.
    as_images = fused is not False and inputs.shape.rank == 2
    if as_images:
      inputs = inputs[:, tf.newaxis, tf.newaxis]
    outputs = layer(inputs, training=is_training)
    if as_images:
      outputs = tf.squeeze(outputs, [1, 2])
    for variable in layer.variables:
      collect_once(variable, v1.GraphKeys.MODEL_VARIABLES)
    if updates_collections is None:  # in place: any use of the output runs the update
      with tf.control_dependencies(layer.updates):
        outputs = tf.identity(outputs)
    return activated(outputs, activation_fn, outputs_collections, found)


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
    beta, gamma = shift_and_scale(shape, inputs, center, scale, variables_collections, trainable)
    mean, variance = tf.nn.moments(inputs, list(range(begin_norm_axis % rank, rank)), keepdims=True)
    epsilon = 1e-3 if inputs.dtype == tf.float16 else 1e-12
    outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
    outputs.set_shape(inputs.shape)
    return activated(outputs, activation_fn, outputs_collections, found)
