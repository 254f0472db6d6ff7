"""tf.layers."""

from trainer.compat import layers
from trainer.compat.names import overlay

__getattr__, __dir__ = overlay.behind(
  __name__, homes=dict.fromkeys(layers.__all__, layers.__name__)
)
