"""tf.nn.rnn_cell: cells on get_variable, with the names of TensorFlow 1
(`basic_lstm_cell/kernel`).
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.layers import base

v1 = tf.compat.v1

LSTMStateTuple = collections.namedtuple("LSTMStateTuple", ("c", "h"))


class RNNCell(base.Layer):
  """A step of a recurrent network: `output, state = cell(inputs, state)`."""

  @property
  def state_size(self) -> Any:
    """The size of the state: an int, or a nest of them."""
    raise NotImplementedError

  @property
  def output_size(self) -> int:
    """The size of the output."""
    raise NotImplementedError

  def zero_state(self, batch_size: Any, dtype: Any) -> Any:
    """The state to begin with."""
    return tf.nest.map_structure(lambda size: tf.zeros([batch_size, size], dtype), self.state_size)

  def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
    """The state to begin with, for inputs or a batch size."""
    if inputs is not None:
      batch_size, dtype = tf.shape(inputs)[0], inputs.dtype
    return self.zero_state(batch_size, dtype)

  def __call__(self, inputs: Any, state: Any, scope: Any = None, **kwargs: Any) -> Any:
    if scope is None:
      return super().__call__(inputs, state=state, **kwargs)
    with v1.variable_scope(scope) as found:
      return super().__call__(inputs, state=state, scope=found, **kwargs)

  def _dense(self, name: str, width: int, units: int, bias: Any = None) -> tuple[Any, Any]:
    prefix = f"{name}/" if name else ""
    kernel = self.add_weight(f"{prefix}kernel", [width, units])
    return kernel, self.add_weight(
      f"{prefix}bias", [units], initializer=bias or v1.zeros_initializer()
    )


class BasicRNNCell(RNNCell):
  """`activation([inputs, state] · kernel + bias)`."""

  def __init__(self, num_units: int, activation: Any = None, reuse: Any = None, **layer: Any):
    super().__init__(_reuse=reuse, **layer)
    self._units = num_units
    self._activation = base.activation(activation) or tf.tanh

  state_size = output_size = property(lambda self: self._units)

  def build(self, input_shape: Any) -> None:
    self._kernel, self._bias = self._dense("", int(input_shape[-1]) + self._units, self._units)

  def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    gate = tf.matmul(tf.concat([inputs, state], 1), self._kernel)
    output = self._activation(tf.nn.bias_add(gate, self._bias))
    return output, output


class GRUCell(RNNCell):
  """The gated recurrent unit of Cho et al."""

  def __init__(
    self,
    num_units: int,
    activation: Any = None,
    reuse: Any = None,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    **layer: Any,
  ):
    super().__init__(_reuse=reuse, **layer)
    self._units = num_units
    self._activation = base.activation(activation) or tf.tanh
    self._kernel_initializer, self._bias_initializer = kernel_initializer, bias_initializer

  state_size = output_size = property(lambda self: self._units)

  def build(self, input_shape: Any) -> None:
    width = int(input_shape[-1]) + self._units
    bias, kernel = self._bias_initializer, self._kernel_initializer
    self._gate_kernel = self.add_weight(
      "gates/kernel", [width, 2 * self._units], initializer=kernel
    )
    self._gate_bias = self.add_weight(
      "gates/bias", [2 * self._units], initializer=bias or v1.ones_initializer()
    )
    self._kernel = self.add_weight("candidate/kernel", [width, self._units], initializer=kernel)
    self._bias = self.add_weight(
      "candidate/bias", [self._units], initializer=bias or v1.zeros_initializer()
    )

  def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    gates = tf.matmul(tf.concat([inputs, state], 1), self._gate_kernel)
    reset, update = tf.split(tf.sigmoid(tf.nn.bias_add(gates, self._gate_bias)), 2, 1)
    candidate = tf.matmul(tf.concat([inputs, reset * state], 1), self._kernel)
    candidate = self._activation(tf.nn.bias_add(candidate, self._bias))
    output = update * state + (1 - update) * candidate
    return output, output


class BasicLSTMCell(RNNCell):
  """The LSTM of Zaremba et al."""

  def __init__(
    self,
    num_units: int,
    forget_bias: float = 1.0,
    state_is_tuple: bool = True,
    activation: Any = None,
    reuse: Any = None,
    **layer: Any,
  ):
    super().__init__(_reuse=reuse, **layer)
    self._units, self._forget_bias = num_units, forget_bias
    self._state_is_tuple = state_is_tuple
    self._activation = base.activation(activation) or tf.tanh

  @property
  def state_size(self) -> Any:
    units = self._units
    return LSTMStateTuple(units, units) if self._state_is_tuple else 2 * units

  output_size = property(lambda self: self._units)

  def build(self, input_shape: Any) -> None:
    self._kernel, self._bias = self._dense("", int(input_shape[-1]) + self._units, 4 * self._units)

  def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
    c, h = state if self._state_is_tuple else tf.split(state, 2, 1)
    gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), self._kernel), self._bias)
    i, j, f, o = tf.split(gates, 4, 1)
    new_c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * self._activation(j)
    new_c = self._remembered(new_c)
    new_h = self._activation(new_c) * tf.sigmoid(o)
    if self._state_is_tuple:
      return new_h, LSTMStateTuple(new_c, new_h)
    return new_h, tf.concat([new_c, new_h], 1)

  def _remembered(self, c: tf.Tensor) -> tf.Tensor:
    """What becomes of the memory."""
    return c


class LSTMBlockCell(BasicLSTMCell):
  """tf.contrib.rnn's LSTM of one operation: BasicLSTMCell in the scope `lstm_cell`, clipped."""

  def __init__(
    self,
    num_units: int,
    forget_bias: float = 1.0,
    cell_clip: float | None = None,
    use_peephole: bool = False,
    dtype: Any = None,
    reuse: Any = None,
    name: str = "lstm_cell",
  ):
    super().__init__(num_units, forget_bias, reuse=reuse, dtype=dtype, name=name)
    if use_peephole:
      raise ValueError("LSTMBlockCell: use_peephole=True is not supported; use LSTMCell.")
    self._cell_clip = cell_clip

  def _remembered(self, c: tf.Tensor) -> tf.Tensor:
    return c if not self._cell_clip else tf.clip_by_value(c, -self._cell_clip, self._cell_clip)


class LSTMCell(RNNCell):
  """The LSTM of Sak et al.: with peepholes, clipping and a projection, where asked for."""

  def __init__(
    self,
    num_units: int,
    use_peepholes: bool = False,
    cell_clip: float | None = None,
    initializer: Any = None,
    num_proj: int | None = None,
    proj_clip: float | None = None,
    num_unit_shards: Any = None,
    num_proj_shards: Any = None,
    forget_bias: float = 1.0,
    state_is_tuple: bool = True,
    activation: Any = None,
    reuse: Any = None,
    **layer: Any,
  ):
    super().__init__(_reuse=reuse, **layer)
    del num_unit_shards, num_proj_shards
    if not state_is_tuple:
      raise ValueError("LSTMCell: state_is_tuple=False is not supported.")
    self._units, self._forget_bias = num_units, forget_bias
    self._use_peepholes, self._cell_clip, self._proj_clip = use_peepholes, cell_clip, proj_clip
    self._initializer, self._projected = initializer, num_proj
    self._activation = base.activation(activation) or tf.tanh

  output_size = property(lambda self: self._projected or self._units)

  @property
  def state_size(self) -> LSTMStateTuple:
    return LSTMStateTuple(self._units, self.output_size)

  def build(self, input_shape: Any) -> None:
    width, units, initial = int(input_shape[-1]) + self.output_size, self._units, self._initializer
    self._kernel = self.add_weight("kernel", [width, 4 * units], initializer=initial)
    self._bias = self.add_weight("bias", [4 * units], initializer=v1.zeros_initializer())
    if self._use_peepholes:
      self._peepholes = [
        self.add_weight(f"w_{gate}_diag", [units], initializer=initial) for gate in "fio"
      ]
    if self._projected:
      self._projection = self.add_weight(
        "projection/kernel", [units, self._projected], initializer=initial
      )

  def call(self, inputs: tf.Tensor, state: LSTMStateTuple) -> tuple[tf.Tensor, LSTMStateTuple]:
    c, h = state
    gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, h], 1), self._kernel), self._bias)
    i, j, f, o = tf.split(gates, 4, 1)
    to_f, to_i, to_o = self._peepholes if self._use_peepholes else (0.0, 0.0, 0.0)
    new_c = tf.sigmoid(f + self._forget_bias + to_f * c) * c
    new_c += tf.sigmoid(i + to_i * c) * self._activation(j)
    if self._cell_clip is not None:
      new_c = tf.clip_by_value(new_c, -self._cell_clip, self._cell_clip)
    new_h = tf.sigmoid(o + to_o * new_c) * self._activation(new_c)
    if self._projected:
      new_h = tf.matmul(new_h, self._projection)
      if self._proj_clip is not None:
        new_h = tf.clip_by_value(new_h, -self._proj_clip, self._proj_clip)
    return new_h, LSTMStateTuple(new_c, new_h)


class MultiRNNCell(RNNCell):
  """Cells one above the other, in the scopes `cell_0`, `cell_1`, ..."""

  def __init__(self, cells: Sequence[RNNCell], state_is_tuple: bool = True, **layer: Any):
    super().__init__(**layer)
    if not state_is_tuple:
      raise ValueError("MultiRNNCell: state_is_tuple=False is not supported.")
    self._cells = list(cells)

  state_size = property(lambda self: tuple(cell.state_size for cell in self._cells))
  output_size = property(lambda self: self._cells[-1].output_size)

  def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
    states = []
    for index, (cell, of_cell) in enumerate(zip(self._cells, state, strict=True)):
      with v1.variable_scope(f"cell_{index}"):
        inputs, new_state = cell(inputs, of_cell)
        states.append(new_state)
    return inputs, tuple(states)


class DropoutWrapper(RNNCell):
  """A cell with dropout on its inputs, states and outputs."""

  def __init__(
    self,
    cell: RNNCell,
    input_keep_prob: Any = 1.0,
    output_keep_prob: Any = 1.0,
    state_keep_prob: Any = 1.0,
    variational_recurrent: bool = False,
    input_size: Any = None,
    dtype: Any = None,
    seed: int | None = None,
    dropout_state_filter_visitor: Callable | None = None,
  ):
    super().__init__(dtype=dtype)
    if variational_recurrent or dropout_state_filter_visitor is not None:
      raise ValueError("DropoutWrapper: variational_recurrent and state filters are not supported.")
    del input_size
    self._cell, self._seed = cell, seed
    self._keep = input_keep_prob, state_keep_prob, output_keep_prob

  state_size = property(lambda self: self._cell.state_size)
  output_size = property(lambda self: self._cell.output_size)

  def __call__(self, inputs: Any, state: Any, scope: Any = None, **kwargs: Any) -> Any:
    of_inputs, of_state, of_output = self._keep
    output, new_state = self._cell(self._dropped(inputs, of_inputs), state, scope=scope)
    if isinstance(new_state, LSTMStateTuple):  # c is the memory, which nothing may drop out
      new_state = new_state._replace(h=self._dropped(new_state.h, of_state))
    else:
      new_state = tf.nest.map_structure(lambda tensor: self._dropped(tensor, of_state), new_state)
    return self._dropped(output, of_output), new_state

  def _dropped(self, tensor: tf.Tensor, keep: Any) -> tf.Tensor:
    if isinstance(keep, int | float) and keep >= 1:
      return tensor
    return tf.nn.dropout(tensor, 1 - keep, seed=self._seed)


class ResidualWrapper(RNNCell):
  """A cell whose inputs are added to its outputs."""

  def __init__(self, cell: RNNCell):
    super().__init__()
    self._cell = cell

  state_size = property(lambda self: self._cell.state_size)
  output_size = property(lambda self: self._cell.output_size)

  def __call__(self, inputs: Any, state: Any, scope: Any = None, **kwargs: Any) -> Any:
    output, new_state = self._cell(inputs, state, scope=scope)
    return output + inputs, new_state
