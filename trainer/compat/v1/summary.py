"""tf.summary: v1's functions, and the writers of TensorFlow 2 that host_calls use."""

from trainer.compat.graph_mode.summary import create_file_writer, scalar
from trainer.compat.names import overlay

__all__ = ["create_file_writer", "scalar"]

# tensorflow.summary has the writers.
__getattr__, __dir__ = overlay.behind(
  __name__, ("tensorflow.compat.v1.summary", "tensorflow.summary")
)
