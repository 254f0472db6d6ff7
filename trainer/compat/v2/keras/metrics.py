"""tf.keras.metrics and tf.metrics; functions also under the names that Keras 3 has in its own
package.
"""

from trainer.compat.names import overlay

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.keras.metrics", "keras.metrics"))
