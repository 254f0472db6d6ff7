"""Cells with a dense layer before or after another cell."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.layers import rnn_cell

v1 = tf.compat.v1

__all__ = ["InputProjectionWrapper", "OutputProjectionWrapper"]


class _Projected(rnn_cell.RNNCell):
  """A cell around another, with the variables `kernel` and `bias` of a dense layer."""

  def __init__(
    self, cell: Any, width: int, activation: Callable | None = None, reuse: bool | None = None
  ):
    super().__init__(_reuse=reuse)
    self._cell, self._width, self._activation = cell, width, activation

  @property
  def state_size(self) -> Any:
    return self._cell.state_size

  def zero_state(self, batch_size: Any, dtype: Any) -> Any:
    return self._cell.zero_state(batch_size, dtype)

  def _projected(self, values: tf.Tensor) -> tf.Tensor:
    kernel = v1.get_variable("kernel", [values.shape[-1], self._width], values.dtype)
    zeros = v1.zeros_initializer()
    bias = v1.get_variable("bias", [self._width], values.dtype, initializer=zeros)
    values = tf.nn.bias_add(tf.matmul(values, kernel), bias)
    return self._activation(values) if self._activation else values


class OutputProjectionWrapper(_Projected):
  """A cell whose output is a dense layer of another cell's output.

  Args:
    cell: the other cell. The state is its state.
    output_size: the width of the output.
    activation: of the dense layer.
    reuse: as variable_scope takes it.
  """

  def __init__(
    self, cell: Any, output_size: int, activation: Callable | None = None, reuse: bool | None = None
  ):
    super().__init__(cell, output_size, activation, reuse)

  @property
  def output_size(self) -> int:
    return self._width

  def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
    output, state = self._cell(inputs, state)
    return self._projected(output), state


class InputProjectionWrapper(_Projected):
  """A cell that reads a dense layer of the inputs.

  Args:
    cell: the other cell. State and output are its own.
    num_proj: the width of the dense layer.
    activation: of the dense layer.
    input_size: ignored, as in TensorFlow 1.
    reuse: as variable_scope takes it.
  """

  def __init__(
    self,
    cell: Any,
    num_proj: int,
    activation: Callable | None = None,
    input_size: Any = None,
    reuse: bool | None = None,
  ):
    del input_size
    super().__init__(cell, num_proj, activation, reuse)

  @property
  def output_size(self) -> Any:
    return self._cell.output_size

  def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
    return self._cell(self._projected(inputs), state)
