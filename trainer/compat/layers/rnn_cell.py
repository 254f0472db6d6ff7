"""tf.nn.rnn_cell: TensorFlow's own cells, which have no public name any more.

They make variables with get_variable and the names of TensorFlow 1 (`basic_lstm_cell/kernel`).
LayerRNNCell and LSTMBlockCell of tf.contrib are here too.
"""

from typing import Any

from trainer.internals.tensorflow_internals import RNN_CELLS

__all__ = [
  "BasicLSTMCell",
  "BasicRNNCell",
  "DeviceWrapper",
  "DropoutWrapper",
  "GRUCell",
  "LSTMBlockCell",
  "LSTMCell",
  "LSTMStateTuple",
  "LayerRNNCell",
  "MultiRNNCell",
  "RNNCell",
  "ResidualWrapper",
]

BasicLSTMCell = RNN_CELLS.BasicLSTMCell
BasicRNNCell = RNN_CELLS.BasicRNNCell
DeviceWrapper = RNN_CELLS.DeviceWrapper
DropoutWrapper = RNN_CELLS.DropoutWrapper
GRUCell = RNN_CELLS.GRUCell
LSTMCell = RNN_CELLS.LSTMCell
LSTMStateTuple = RNN_CELLS.LSTMStateTuple
LayerRNNCell = RNN_CELLS.LayerRNNCell
MultiRNNCell = RNN_CELLS.MultiRNNCell
RNNCell = RNN_CELLS.RNNCell
ResidualWrapper = RNN_CELLS.ResidualWrapper


class LSTMBlockCell(LSTMCell):
  """tf.contrib.rnn's LSTM of one operation: an LSTMCell in the scope `lstm_cell`, clipped."""

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
    if use_peephole:
      raise ValueError("Octet does not support LSTMBlockCell(use_peephole=True); use LSTMCell.")
    super().__init__(
      num_units,
      cell_clip=cell_clip or None,
      forget_bias=forget_bias,
      reuse=reuse,
      name=name,
      dtype=dtype,
    )
