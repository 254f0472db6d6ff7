"""tf.contrib.layers, and what slim has of it: layers as functions, in scopes and with variables
named as they were (`Conv/weights`, `fully_connected/biases`, `BatchNorm/beta`, `LayerNorm/gamma`).
"""
