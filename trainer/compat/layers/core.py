"""Dense, Dropout and Flatten."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.layers import base


class Dense(base.Layer):
  """`activation(inputs · kernel + bias)`."""

  def __init__(
    self,
    units: int,
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
    self.units = int(units)
    self.activation = base.activation(activation)
    self.use_bias = use_bias
    self._of_kernel = base.of_weight(kernel_initializer, kernel_regularizer, kernel_constraint)
    self._of_bias = base.of_weight(bias_initializer, bias_regularizer, bias_constraint)

  def build(self, input_shape: Any) -> None:
    width = input_shape.as_list()[-1]
    if width is None:
      raise ValueError("The last dimension of the inputs to `Dense` should be defined.")
    self.kernel = self.add_weight("kernel", [width, self.units], **self._of_kernel)
    self.bias = self.add_weight("bias", [self.units], **self._of_bias) if self.use_bias else None
    self.built = True

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    outputs = (
      tf.matmul(inputs, self.kernel)
      if inputs.shape.rank == 2
      else tf.tensordot(inputs, self.kernel, [[inputs.shape.rank - 1], [0]])
    )
    if self.use_bias:
      outputs = tf.nn.bias_add(outputs, self.bias)
    return outputs if self.activation is None else self.activation(outputs)


class Dropout(base.Layer):
  """Sets a random share of the inputs to 0, in training."""

  def __init__(
    self, rate: Any = 0.5, noise_shape: Any = None, seed: int | None = None, **layer: Any
  ):
    super().__init__(**layer)
    self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

  def call(self, inputs: tf.Tensor, training: Any = False) -> tf.Tensor:
    def dropped() -> tf.Tensor:
      return tf.nn.dropout(inputs, self.rate, noise_shape=self.noise_shape, seed=self.seed)

    training = base.static_bool(training)
    if isinstance(training, bool):
      return dropped() if training else tf.identity(inputs)
    return tf.cond(training, dropped, lambda: tf.identity(inputs))


class Flatten(base.Layer):
  """Reshapes [batch, ...] to [batch, product of the other axes]."""

  def __init__(self, data_format: str = "channels_last", **layer: Any):
    super().__init__(**layer)
    self._channels_first = data_format == "channels_first"

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    rank = inputs.shape.rank
    if self._channels_first and rank and rank > 2:
      inputs = tf.transpose(inputs, [0, *range(2, rank), 1])
    batch, size = inputs.shape.as_list()[0], inputs.shape[1:].num_elements()
    if size is not None:
      return tf.reshape(inputs, [-1 if batch is None else batch, size])
    outputs = tf.reshape(inputs, [tf.shape(inputs)[0], -1])
    outputs.set_shape([batch, None])
    return outputs


dense = base.function(Dense)
dropout = base.function(Dropout, "training")
flatten = base.function(Flatten)
