"""tf.data, with the iterators of graph mode for input_fns."""

import tensorflow as tf

from trainer.compat.v1 import overlay
from trainer.compat.v1.estimator.input_fns import (
  make_initializable_iterator,
  make_one_shot_iterator,
)

__all__ = ["make_initializable_iterator", "make_one_shot_iterator"]

# The methods of datasets, once a process: outside of an input_fn they do what they did.
tf.compat.v1.data.Dataset.make_one_shot_iterator = make_one_shot_iterator
tf.compat.v1.data.Dataset.make_initializable_iterator = make_initializable_iterator

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.data", "tensorflow.data"))
