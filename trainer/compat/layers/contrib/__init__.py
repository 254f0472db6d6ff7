"""tf.contrib.layers, also for slim: layers as functions.

Scopes and variables have the names of TensorFlow 1 (`Conv/weights`, `fully_connected/biases`,
`BatchNorm/beta`, `LayerNorm/gamma`).
"""
