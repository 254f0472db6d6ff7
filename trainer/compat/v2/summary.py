"""tf.summary of TensorFlow 2; in a model_fn, see `trainer.compat.v1.summary`."""

from trainer.compat.v1 import overlay
from trainer.compat.v1.summary import create_file_writer

__all__ = ["create_file_writer"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.summary",))
