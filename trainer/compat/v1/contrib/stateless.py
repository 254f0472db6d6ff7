"""tf.contrib.stateless: random numbers that follow from a seed alone."""

import tensorflow as tf

from trainer.compat.names import overlay

stateless_multinomial = tf.random.stateless_categorical
stateless_random_normal = tf.random.stateless_normal
stateless_random_uniform = tf.random.stateless_uniform
stateless_truncated_normal = tf.random.stateless_truncated_normal

__getattr__, __dir__ = overlay.behind(__name__)
