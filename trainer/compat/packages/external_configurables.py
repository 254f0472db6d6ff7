"""`import gin.tf.external_configurables`: TensorFlow's functions and classes under gin's names.

They are registered as Octet has them, see docs/gin.md; those of the program come first.
"""

from trainer.config import keras_names

keras_names.register()
