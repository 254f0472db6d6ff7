"""tf.gradients, with the arguments of TensorFlow 2: see `graph_mode.differentiation`."""

import functools

import tensorflow as tf

from trainer.compat.graph_mode import differentiation

gradients = functools.partial(differentiation.combined, tf.gradients)
