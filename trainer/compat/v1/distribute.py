"""tf.distribute: TensorFlow's own, with cluster resolvers that need no TPU to be made."""

import types

import tensorflow as tf

from trainer.compat.v1 import overlay
from trainer.compat.v1.cluster_resolver import TPUClusterResolver

cluster_resolver = types.SimpleNamespace(
  **{
    name: getattr(tf.distribute.cluster_resolver, name)
    for name in dir(tf.distribute.cluster_resolver)
    if not name.startswith("_")
  }
)
cluster_resolver.TPUClusterResolver = TPUClusterResolver

__getattr__, __dir__ = overlay.behind(
  __name__, ("tensorflow.compat.v1.distribute", "tensorflow.distribute")
)
