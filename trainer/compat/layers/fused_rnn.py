"""tf.contrib.rnn's recurrent networks over all steps at once, time first."""

from typing import Any

import tensorflow as tf

from trainer.compat.layers import rnn_cell

v1 = tf.compat.v1


class LSTMBlockFusedCell(rnn_cell.LSTMBlockCell):
  """An LSTM over all steps: `outputs, (c, h) = cell(inputs, dtype=, sequence_length=)`.

  Inputs and outputs are [time, batch, size]. After a sequence's end, outputs are zeros and the
  state stays. The variables are `lstm_fused_cell/kernel` and `lstm_fused_cell/bias`.
  """

  def __init__(
    self,
    num_units: int,
    forget_bias: float = 1.0,
    cell_clip: float | None = None,
    use_peephole: bool = False,
    reuse: Any = None,
    dtype: Any = None,
    name: str = "lstm_fused_cell",
  ):
    super().__init__(num_units, forget_bias, cell_clip, use_peephole, dtype, reuse, name)
    self.input_spec = None  # a cell's spec asks for one step's inputs

  @property
  def num_units(self) -> int:
    return self.output_size

  def __call__(
    self,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
  ) -> tuple[tf.Tensor, rnn_cell.LSTMStateTuple]:
    del dtype  # the inputs decide
    inputs = tf.convert_to_tensor(inputs)
    if initial_state is None:
      initial_state = self.zero_state(tf.shape(inputs)[1], inputs.dtype)
    state = rnn_cell.LSTMStateTuple(*initial_state)
    lengths = None if sequence_length is None else tf.cast(sequence_length, tf.int32)
    return super().__call__(inputs, state, scope, lengths=lengths)

  def call(
    self, inputs: tf.Tensor, state: rnn_cell.LSTMStateTuple, lengths: tf.Tensor | None = None
  ) -> tuple[tf.Tensor, rnn_cell.LSTMStateTuple]:
    one_step = super().call

    def step(
      before: tuple[tf.Tensor, tf.Tensor, tf.Tensor], given: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
      now, time = given
      output, (c, h) = one_step(now, rnn_cell.LSTMStateTuple(*before[1:]))
      if lengths is None:
        return output, c, h
      is_inside = (time < lengths)[:, tf.newaxis]
      return (
        tf.where(is_inside, output, tf.zeros_like(output)),
        tf.where(is_inside, c, before[1]),
        tf.where(is_inside, h, before[2]),
      )

    steps = (inputs, tf.range(tf.shape(inputs)[0]))
    outputs, all_c, all_h = tf.scan(step, steps, (state.h, *state))
    c, h = (
      tf.concat([first[tf.newaxis], every], 0)[-1]
      for first, every in ((state.c, all_c), (state.h, all_h))
    )
    return outputs, rnn_cell.LSTMStateTuple(c, h)


class FusedRNNCellAdaptor:
  """Runs a cell of single steps over all steps, with or without dynamic_rnn."""

  def __init__(self, cell: Any, use_dynamic_rnn: bool = False):
    self._cell, self._is_dynamic = cell, use_dynamic_rnn

  def __call__(
    self,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
  ) -> tuple[tf.Tensor, Any]:
    given = dict(
      initial_state=initial_state, dtype=dtype, sequence_length=sequence_length, scope=scope
    )
    if self._is_dynamic:
      return v1.nn.dynamic_rnn(self._cell, inputs, time_major=True, **given)
    outputs, state = v1.nn.static_rnn(self._cell, tf.unstack(inputs), **given)
    return tf.stack(outputs), state


class TimeReversedFusedRNN:
  """Runs a network over all steps, from the end of each sequence to its beginning."""

  def __init__(self, cell: Any):
    self._cell = cell

  def __call__(
    self,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
  ) -> tuple[Any, Any]:
    outputs, state = self._cell(
      self._reversed(inputs, sequence_length), initial_state, dtype, sequence_length, scope
    )
    return self._reversed(outputs, sequence_length), state

  def _reversed(self, tensors: Any, lengths: Any) -> Any:
    def one(tensor: Any) -> tf.Tensor:
      if lengths is None:
        return tf.reverse(tensor, [0])
      return tf.reverse_sequence(tensor, lengths, seq_axis=0, batch_axis=1)

    return tf.nest.map_structure(one, tensors)
