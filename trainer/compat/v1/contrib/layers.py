"""tf.contrib.layers."""

from trainer.compat.layers import contrib
from trainer.compat.names import overlay

__getattr__, __dir__ = overlay.behind(
  __name__,
  ("tensorflow.compat.v1.feature_column",),
  homes=dict.fromkeys(contrib.__all__, contrib.__name__),
)
