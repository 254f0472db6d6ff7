"""tf.data, with the iterators of graph mode for input_fns."""

from trainer.compat.estimator.input_fns import make_initializable_iterator, make_one_shot_iterator
from trainer.compat.names import overlay

__all__ = ["make_initializable_iterator", "make_one_shot_iterator"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.data", "tensorflow.data"))
