"""tf.summary of TensorFlow 2; in a model_fn, see `trainer.compat.graph_mode.summary`."""

from trainer.compat.graph_mode.summary import create_file_writer
from trainer.compat.names import overlay

__all__ = ["create_file_writer"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.summary",))
