"""tf.nn, with recurrent cells that do not ask Keras 2."""

from trainer.compat.layers import rnn_cell
from trainer.compat.names import overlay

__all__ = ["rnn_cell"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.nn", "tensorflow.nn"))
