"""tf.contrib.rnn: the cells of tf.nn.rnn_cell."""

from trainer.compat.v1 import nn, overlay
from trainer.compat.v1.rnn_cell import (
  BasicLSTMCell,
  BasicRNNCell,
  DropoutWrapper,
  GRUCell,
  LSTMCell,
  LSTMStateTuple,
  MultiRNNCell,
  ResidualWrapper,
  RNNCell,
)

__all__ = [
  "BasicLSTMCell",
  "BasicRNNCell",
  "DropoutWrapper",
  "GRUCell",
  "LSTMCell",
  "LSTMStateTuple",
  "MultiRNNCell",
  "RNNCell",
  "ResidualWrapper",
]

static_rnn = nn.static_rnn
static_bidirectional_rnn = nn.static_bidirectional_rnn

__getattr__, __dir__ = overlay.behind(__name__)
