"""Layers of tf.layers, as classes and as functions, on get_variable, with the names of TensorFlow
1; and of tf.contrib.layers and tf.nn.rnn_cell.
"""
