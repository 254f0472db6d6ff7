"""Batch normalization. It adds the updates of its moving averages to UPDATE_OPS."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.compat.layers import base

v1 = tf.compat.v1

# Rank and axis of the channels → the layout for TensorFlow's fused operation.
_FUSED = {(4, 1): "NCHW", (4, 3): "NHWC", (5, 1): "NCDHW", (5, 4): "NDHWC"}


class BatchNormalization(base.Layer):
  """Normalizes with the batch's moments in training, and with moving averages elsewhere.

  Args:
    axis: the axis of the channels, or a list of them.
    fused: False to avoid TensorFlow's fused operation; otherwise images and volumes use it.
    renorm, virtual_batch_size, adjustment: not supported.

  Raises:
    SettingError: an unsupported argument is set.
  """

  def __init__(
    self,
    axis: Any = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = "zeros",
    gamma_initializer: Any = "ones",
    moving_mean_initializer: Any = "zeros",
    moving_variance_initializer: Any = "ones",
    beta_regularizer: Callable | None = None,
    gamma_regularizer: Callable | None = None,
    beta_constraint: Callable | None = None,
    gamma_constraint: Callable | None = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Callable | None = None,
    **layer: Any,
  ):
    super().__init__(**layer)
    del renorm_clipping, renorm_momentum
    for name, given in (
      ("renorm", renorm),
      ("virtual_batch_size", virtual_batch_size),
      ("adjustment", adjustment),
    ):
      if given:
        raise errors.SettingError(
          f"Octet does not support tf.layers.BatchNormalization({name}=...): remove the argument."
        )
    self.axis = axis
    self.momentum, self.epsilon = momentum, epsilon
    self.center, self.scale, self.fused = center, scale, fused
    self._of_beta = base.of_weight(beta_initializer, beta_regularizer, beta_constraint)
    self._of_gamma = base.of_weight(gamma_initializer, gamma_regularizer, gamma_constraint)
    self._initial_mean = base.initializer(moving_mean_initializer)
    self._initial_variance = base.initializer(moving_variance_initializer)

  def build(self, input_shape: Any) -> None:
    known, rank = input_shape.as_list(), input_shape.rank
    given = self.axis if isinstance(self.axis, list | tuple) else [self.axis]
    self._axes = [axis % rank for axis in given]
    # As in 2.15, fused=True is a wish: rows, and axes that the operation lacks, run without it.
    self._format = _FUSED.get((rank, *self._axes))
    self.fused = self.fused is not False and self._format is not None
    if None in (known[axis] for axis in self._axes):
      raise ValueError(f"BatchNormalization: the axes {self._axes} of {input_shape} must be known.")
    shape = [known[axis] for axis in self._axes]
    if len(shape) > 1:
      shape = [known[axis] if axis in self._axes else 1 for axis in range(rank)]
    dtype = tf.float32 if self.dtype in ("float16", "bfloat16") else self.dtype
    self.gamma = self.add_weight("gamma", shape, dtype, **self._of_gamma) if self.scale else None
    self.beta = self.add_weight("beta", shape, dtype, **self._of_beta) if self.center else None
    self.moving_mean = self.add_weight(
      "moving_mean", shape, dtype, self._initial_mean, trainable=False
    )
    self.moving_variance = self.add_weight(
      "moving_variance", shape, dtype, self._initial_variance, trainable=False
    )
    self.built = True

  def _moments(
    self, inputs: tf.Tensor, reduction_axes: list[int], keep_dims: bool, mask: Any = None
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns one core's (mean, variance) of the batch; programs override it to ask other cores."""
    del mask
    return tf.nn.moments(inputs, reduction_axes, keepdims=keep_dims)

  def call(self, inputs: tf.Tensor, training: Any = False) -> tf.Tensor:
    training = base.static_bool(training)
    if not isinstance(training, bool):
      # Both branches return the new averages, because the update must be outside of the branches.
      outputs, mean, variance = tf.cond(
        training, lambda: self._normalized(inputs, True), lambda: self._normalized(inputs, False)
      )
      rate = tf.where(training, 1 - self.momentum, 0.0)
      self._move(mean, variance, rate)
      return outputs
    outputs, mean, variance = self._normalized(inputs, training)
    if training:
      self._move(mean, variance, 1 - self.momentum)
    return outputs

  def _normalized(self, inputs: tf.Tensor, training: bool) -> tuple[tf.Tensor, Any, Any]:
    """Returns (outputs, mean, variance), with the batch's moments or the moving averages."""
    return (self._fused if self.fused else self._unfused)(inputs, training)

  def _fused(self, inputs: tf.Tensor, training: bool) -> tuple[tf.Tensor, Any, Any]:
    size = self.moving_mean.shape
    statistics = {}
    if not training:
      statistics = dict(
        mean=tf.convert_to_tensor(self.moving_mean),
        variance=tf.convert_to_tensor(self.moving_variance),
      )
    return v1.nn.fused_batch_norm(
      inputs,
      tf.ones(size) if self.gamma is None else self.gamma,
      tf.zeros(size) if self.beta is None else self.beta,
      epsilon=self.epsilon,
      data_format=self._format,
      is_training=training,
      **statistics,
    )

  def _unfused(self, inputs: tf.Tensor, training: bool) -> tuple[tf.Tensor, Any, Any]:
    rank = inputs.shape.rank
    several = len(self._axes) > 1
    if training:
      reduced = [axis for axis in range(rank) if axis not in self._axes]
      mean, variance = self._moments(
        tf.cast(inputs, self.moving_mean.dtype), reduced, keep_dims=several
      )
    else:
      mean = tf.convert_to_tensor(self.moving_mean)
      variance = tf.convert_to_tensor(self.moving_variance)
    shape = [inputs.shape[axis] if axis in self._axes else 1 for axis in range(rank)]

    def wide(vector: Any) -> tf.Tensor | None:
      return None if vector is None else tf.cast(tf.reshape(vector, shape), inputs.dtype)

    outputs = tf.nn.batch_normalization(
      inputs, wide(mean), wide(variance), wide(self.beta), wide(self.gamma), self.epsilon
    )
    return outputs, mean, variance

  def _move(self, mean: tf.Tensor, variance: tf.Tensor, rate: Any) -> None:
    for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
      value = tf.cast(tf.reshape(value, average.shape), average.dtype)
      self.add_update(average.assign_sub((average.read_value() - value) * rate))


batch_normalization = base.function(BatchNormalization, "training")
