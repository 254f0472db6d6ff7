"""tf.gradients, with the arguments of TensorFlow 2: see `trainer.compat.v1.differentiation`."""

import functools

import tensorflow as tf

from trainer.compat.v1 import differentiation

gradients = functools.partial(differentiation.combined, tf.gradients)
