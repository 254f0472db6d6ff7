"""tf.test, whose TestCase is that of graph mode."""

from trainer.compat.graph_mode.test_case import TestCase
from trainer.compat.names import overlay

__all__ = ["TestCase"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.test",))
