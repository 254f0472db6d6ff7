"""tf.contrib.rnn: the cells of tf.nn.rnn_cell."""

from trainer.compat.layers.fused_rnn import (
  FusedRNNCellAdaptor,
  LSTMBlockFusedCell,
  TimeReversedFusedRNN,
)
from trainer.compat.layers.rnn_cell import (
  BasicLSTMCell,
  BasicRNNCell,
  DropoutWrapper,
  GRUCell,
  LSTMBlockCell,
  LSTMCell,
  LSTMStateTuple,
  MultiRNNCell,
  ResidualWrapper,
  RNNCell,
)
from trainer.compat.layers.stacked_rnn import stack_bidirectional_dynamic_rnn
from trainer.compat.names import overlay
from trainer.compat.v1 import nn

__all__ = [
  "BasicLSTMCell",
  "BasicRNNCell",
  "DropoutWrapper",
  "FusedRNNCellAdaptor",
  "GRUCell",
  "LSTMBlockCell",
  "LSTMBlockFusedCell",
  "LSTMCell",
  "LSTMStateTuple",
  "MultiRNNCell",
  "RNNCell",
  "ResidualWrapper",
  "TimeReversedFusedRNN",
  "stack_bidirectional_dynamic_rnn",
]

static_rnn = nn.static_rnn
static_bidirectional_rnn = nn.static_bidirectional_rnn

__getattr__, __dir__ = overlay.behind(__name__)
