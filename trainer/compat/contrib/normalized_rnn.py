"""An LSTM whose gates and state are normalized."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.contrib.tf_slim.layers import layers
from trainer.compat.layers import rnn_cell

v1 = tf.compat.v1


class LayerNormBasicLSTMCell(rnn_cell.RNNCell):
  """An LSTM with layer normalization and recurrent dropout.

  https://arxiv.org/abs/1607.06450 and https://arxiv.org/abs/1603.05118.

  Args:
    num_units: the size of the state and the output.
    forget_bias: added to the forget gate.
    input_size: ignored, as in TensorFlow 1.
    activation: of the candidate and of the output.
    layer_norm: whether to normalize. If not, the gates have a bias.
    norm_gain, norm_shift: the first values of gamma and beta.
    dropout_keep_prob: the share of the candidate that dropout keeps.
    dropout_prob_seed: the seed of dropout.
    reuse: as variable_scope takes it.
  """

  def __init__(
    self,
    num_units: int,
    forget_bias: float = 1.0,
    input_size: Any = None,
    activation: Callable = tf.tanh,
    layer_norm: bool = True,
    norm_gain: float = 1.0,
    norm_shift: float = 0.0,
    dropout_keep_prob: Any = 1.0,
    dropout_prob_seed: int | None = None,
    reuse: bool | None = None,
  ):
    super().__init__(_reuse=reuse)
    del input_size
    self._num_units, self._forget_bias, self._activation = num_units, forget_bias, activation
    self._is_normalized = layer_norm
    self._first = {"gamma": norm_gain, "beta": norm_shift}
    self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

  @property
  def state_size(self) -> rnn_cell.LSTMStateTuple:
    return rnn_cell.LSTMStateTuple(self._num_units, self._num_units)

  @property
  def output_size(self) -> int:
    return self._num_units

  def call(
    self, inputs: tf.Tensor, state: tuple[tf.Tensor, tf.Tensor]
  ) -> tuple[tf.Tensor, rnn_cell.LSTMStateTuple]:
    c, h = state
    inputs = tf.concat([inputs, h], 1)
    width = 4 * self._num_units
    gates = tf.matmul(inputs, v1.get_variable("kernel", [inputs.shape[-1], width], inputs.dtype))
    if not self._is_normalized:
      gates = tf.nn.bias_add(gates, v1.get_variable("bias", [width], inputs.dtype))
    names = ("input", "transform", "forget", "output")
    i, j, f, o = map(self._normalized, tf.split(gates, 4, 1), names)
    candidate = self._activation(j)
    if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
      candidate = v1.nn.dropout(candidate, self._keep_prob, seed=self._seed)
    c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * candidate
    c = self._normalized(c, "state")
    h = self._activation(c) * tf.sigmoid(o)
    return h, rnn_cell.LSTMStateTuple(c, h)

  def _normalized(self, values: tf.Tensor, scope: str) -> tf.Tensor:
    if not self._is_normalized:
      return values
    with v1.variable_scope(scope):
      for name, first in self._first.items():
        initializer = v1.constant_initializer(first)
        v1.get_variable(name, values.shape[-1:], values.dtype, initializer)
    return layers.layer_norm(values, reuse=True, scope=scope)
