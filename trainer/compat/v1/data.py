"""tf.data, with the iterators of graph mode for input_fns."""

from trainer.compat.v1 import overlay
from trainer.compat.v1.estimator.input_fns import (
  make_initializable_iterator,
  make_one_shot_iterator,
)

__all__ = ["make_initializable_iterator", "make_one_shot_iterator"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.data", "tensorflow.data"))
