"""`import gin.tf.external_configurables`: TensorFlow's functions and classes under gin's names.

Octet registers them as docs/gin.md describes. The program's own registrations have priority.
"""

from trainer.config import keras_names

keras_names.register()
