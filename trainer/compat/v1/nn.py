"""tf.nn, with recurrent cells that do not ask Keras 2."""

from trainer.compat.v1 import overlay, rnn_cell

__all__ = ["rnn_cell"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.nn", "tensorflow.nn"))
