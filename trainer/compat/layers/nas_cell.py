"""A recurrent cell that a search of architectures found."""

from typing import Any

import tensorflow as tf

from trainer.compat.layers import rnn_cell

v1 = tf.compat.v1


class NASCell(rnn_cell.RNNCell):
  """The cell of https://arxiv.org/abs/1611.01578.

  Args:
    num_units: the size of the cell's state.
    num_proj: the size of the output, which a matrix without bias makes; None for num_units.
    use_bias: whether the gates have a bias.
    reuse: as variable_scope takes it.
  """

  def __init__(
    self,
    num_units: int,
    num_proj: int | None = None,
    use_bias: bool = False,
    reuse: bool | None = None,
    **kwargs: Any,
  ):
    super().__init__(_reuse=reuse, **kwargs)
    self._num_units, self._num_proj, self._use_bias = num_units, num_proj, use_bias

  @property
  def state_size(self) -> rnn_cell.LSTMStateTuple:
    return rnn_cell.LSTMStateTuple(self._num_units, self.output_size)

  @property
  def output_size(self) -> int:
    return self._num_units if self._num_proj is None else self._num_proj

  def call(
    self, inputs: tf.Tensor, state: tuple[tf.Tensor, tf.Tensor]
  ) -> tuple[tf.Tensor, rnn_cell.LSTMStateTuple]:
    c, m = state
    width, dtype = 8 * self._num_units, inputs.dtype
    of_state = tf.matmul(m, v1.get_variable("recurrent_kernel", [self.output_size, width], dtype))
    of_inputs = tf.matmul(inputs, v1.get_variable("kernel", [inputs.shape[-1], width], dtype))
    if self._use_bias:
      zeros = v1.zeros_initializer()
      of_state += v1.get_variable("bias", [width], dtype, initializer=zeros)
    of_state, of_inputs = tf.split(of_state, 8, 1), tf.split(of_inputs, 8, 1)
    gates = [one + other for one, other in zip(of_inputs, of_state, strict=True)]
    gates[3] = of_inputs[3] * of_state[3]
    first = tf.tanh(tf.sigmoid(gates[0]) * tf.nn.relu(gates[1]))
    second = tf.tanh(tf.sigmoid(gates[2]) + tf.nn.relu(gates[3]))
    third = tf.tanh(tf.tanh(gates[4]) * tf.sigmoid(gates[5]))
    fourth = tf.sigmoid(tf.tanh(gates[6]) + tf.sigmoid(gates[7]))
    c = tf.tanh(first + c) * second
    m = tf.tanh(c * tf.tanh(third + fourth))
    if self._num_proj is not None:
      shape = [self._num_units, self._num_proj]
      m = tf.matmul(m, v1.get_variable("projection_weights", shape, dtype))
    return m, rnn_cell.LSTMStateTuple(c, m)
