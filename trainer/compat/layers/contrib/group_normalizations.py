"""Group normalization and instance normalization, with each example's moments."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.layers.contrib.arg_scopes import add_arg_scope
from trainer.compat.layers.contrib.common import activated, shift_and_scale

v1 = tf.compat.v1


@add_arg_scope
def group_norm(
  inputs: tf.Tensor,
  groups: int = 32,
  channels_axis: int = -1,
  reduction_axes: Sequence[int] = (-3, -2),
  center: bool = True,
  scale: bool = True,
  epsilon: float = 1e-6,
  activation_fn: Callable | None = None,
  param_initializers: dict[str, Any] | None = None,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
  mean_close_to_zero: bool = False,
) -> tf.Tensor:
  """Normalizes the channels of each group together.

  Args:
    groups: the number of groups of channels.
    reduction_axes: the axes of the moments besides the channels.
    mean_close_to_zero: no effect: the variance always uses differences from the mean.
    others: see batch_norm.

  Raises:
    ValueError: the number of groups does not divide the channels.
  """
  del mean_close_to_zero
  with v1.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as found:
    inputs = tf.convert_to_tensor(inputs)
    axis = channels_axis % inputs.shape.rank
    channels = int(inputs.shape[axis])
    if channels % groups:
      raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")
    axes = [one % inputs.shape.rank for one in reduction_axes]
    if axis in axes:
      raise ValueError("reduction_axes must not have channels_axis.")
    size = tf.shape(inputs)
    cut = tf.concat([size[:axis], [groups, channels // groups], size[axis + 1 :]], 0)
    parameters = [1] * inputs.shape.rank
    parameters[axis : axis + 1] = [groups, channels // groups]
    outputs = _normalized(
      tf.reshape(inputs, cut),
      [axis + 1, *(one + (one > axis) for one in axes)],
      parameters,
      shift_and_scale(
        [channels], inputs, center, scale, variables_collections, trainable, param_initializers
      ),
      epsilon,
    )
    outputs = tf.ensure_shape(tf.reshape(outputs, size), inputs.shape)
    return activated(outputs, activation_fn, outputs_collections, found)


@add_arg_scope
def instance_norm(
  inputs: tf.Tensor,
  center: bool = True,
  scale: bool = True,
  epsilon: float = 1e-6,
  activation_fn: Callable | None = None,
  param_initializers: dict[str, Any] | None = None,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  data_format: str = "NHWC",
  scope: Any = None,
) -> tf.Tensor:
  """Normalizes each channel of each example; see batch_norm for the arguments."""
  with v1.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as found:
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.rank
    axis = 1 if data_format.startswith("NC") else rank - 1
    channels = int(inputs.shape[axis])
    outputs = _normalized(
      inputs,
      [one for one in range(1, rank) if one != axis],
      [channels if one == axis else 1 for one in range(rank)],
      shift_and_scale(
        [channels], inputs, center, scale, variables_collections, trainable, param_initializers
      ),
      epsilon,
    )
    return activated(outputs, activation_fn, outputs_collections, found)


def _normalized(inputs, axes, shape, parameters, epsilon):
  mean, variance = tf.nn.moments(inputs, axes, keepdims=True)
  beta, gamma = (None if one is None else tf.reshape(one, shape) for one in parameters)
  return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
