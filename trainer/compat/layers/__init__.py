"""Layers of tf.layers, tf.contrib.layers and tf.nn.rnn_cell, with the names of TensorFlow 1.

All make their variables with get_variable.
"""
