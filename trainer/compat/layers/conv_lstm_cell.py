"""Recurrent cells of tf.contrib.rnn whose gates are convolutions."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.layers import rnn_cell

v1 = tf.compat.v1


class ConvLSTMCell(rnn_cell.RNNCell):
  """The LSTM of https://arxiv.org/abs/1506.04214, without peepholes.

  Args:
    conv_ndims: the number of axes of a convolution: 1, 2 or 3.
    input_shape: the shape of one example: the axes of the convolution, and the channels.
    output_channels: the channels of the state.
    kernel_shape: the size of the kernel along each axis.
    use_bias: whether the gates have a bias.
    skip_connection: whether the output has the inputs after its channels. As in TensorFlow 1.15,
      the new state has them, too, so that such a cell takes a single step.
    forget_bias: added to the forget gate.
    initializers: unused, as in TensorFlow 1.15; a scope's initializer makes the first values.
    name: the scope of the variables.

  Raises:
    ValueError: input_shape has another number of axes.
  """

  def __init__(
    self,
    conv_ndims: int,
    input_shape: Sequence[int],
    output_channels: int,
    kernel_shape: Sequence[int],
    use_bias: bool = True,
    skip_connection: bool = False,
    forget_bias: float = 1.0,
    initializers: Any = None,
    name: str = "conv_lstm_cell",
  ):
    del initializers
    super().__init__(name=name)
    *axes, channels = tf.TensorShape(input_shape).as_list()
    if len(axes) != conv_ndims:
      raise ValueError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
    self._channels, self._kernel_shape = output_channels, list(kernel_shape)
    self._use_bias, self._skips, self._forget_bias = use_bias, skip_connection, forget_bias
    state = tf.TensorShape([*axes, output_channels])
    self._state_size = rnn_cell.LSTMStateTuple(state, state)
    self._output_size = tf.TensorShape([*axes, output_channels + channels * bool(skip_connection)])

  @property
  def state_size(self) -> rnn_cell.LSTMStateTuple:
    return self._state_size

  @property
  def output_size(self) -> tf.TensorShape:
    return self._output_size

  def call(
    self, inputs: tf.Tensor, state: tuple[tf.Tensor, tf.Tensor]
  ) -> tuple[tf.Tensor, rnn_cell.LSTMStateTuple]:
    cell, hidden = state
    given, width = tf.concat([inputs, hidden], -1), 4 * self._channels
    shape = [*self._kernel_shape, given.shape[-1], width]
    gates = tf.nn.convolution(given, v1.get_variable("kernel", shape, inputs.dtype), padding="SAME")
    if self._use_bias:
      zeros = v1.zeros_initializer()
      gates += v1.get_variable("biases", [width], inputs.dtype, initializer=zeros)
    i, j, f, o = tf.split(gates, 4, -1)
    cell = tf.sigmoid(f + self._forget_bias) * cell + tf.sigmoid(i) * tf.tanh(j)
    output = tf.tanh(cell) * tf.sigmoid(o)
    if self._skips:
      output = tf.concat([output, inputs], -1)
    return output, rnn_cell.LSTMStateTuple(cell, output)


class Conv1DLSTMCell(ConvLSTMCell):
  """A ConvLSTMCell of one axis."""

  def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any):
    super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
  """A ConvLSTMCell of two axes."""

  def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any):
    super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
  """A ConvLSTMCell of three axes."""

  def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any):
    super().__init__(conv_ndims=3, name=name, **kwargs)
