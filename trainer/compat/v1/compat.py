"""tf.compat: `v1` is this package."""

import trainer.compat.v1 as v1
from trainer.compat.v1 import overlay

__all__ = ["v1"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat",))
