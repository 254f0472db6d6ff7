"""tf.contrib.cluster_resolver."""

from trainer.compat.v1 import overlay
from trainer.compat.v1.cluster_resolver import TPUClusterResolver

__all__ = ["TPUClusterResolver"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.distribute.cluster_resolver",))
