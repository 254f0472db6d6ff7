"""tf.version and tf.__version__: the last TensorFlow with tf.estimator; see trainer.compat.v1."""

from trainer.compat.names import overlay

VERSION = __version__ = "2.15.1"

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.version",))
