"""tf.version and tf.__version__: the TensorFlow that these names are of, and not the installed one.

Programs choose by it what they import and call: `if tf.__version__ < "2": tf.contrib...`.
"""

from trainer.compat.names import overlay

VERSION = __version__ = "1.15.5"

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.version",))
