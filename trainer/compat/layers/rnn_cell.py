"""tf.nn.rnn_cell: TensorFlow's own cells, which have no public name any more.

They make variables with get_variable and the names of TensorFlow 1 (`basic_lstm_cell/kernel`).
LayerRNNCell of tf.contrib is here too.
"""

from trainer.internals.tensorflow_internals import RNN_CELLS

__all__ = [
  "BasicLSTMCell",
  "BasicRNNCell",
  "DeviceWrapper",
  "DropoutWrapper",
  "GRUCell",
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
