"""tf.contrib.cluster_resolver."""

from trainer.compat.estimator.cluster_resolver import TPUClusterResolver
from trainer.compat.names import overlay

__all__ = ["TPUClusterResolver"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.distribute.cluster_resolver",))
