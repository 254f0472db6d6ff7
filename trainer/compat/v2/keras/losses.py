"""tf.keras.losses and tf.losses; functions also under the names that Keras 3 has in its own
package.
"""

from trainer.compat.names import overlay

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.keras.losses", "keras.losses"))
