"""tf.compat: `v1` and `v2` are the packages of trainer.compat."""

import trainer.compat.v1 as v1
import trainer.compat.v2 as v2
from trainer.compat.names import overlay

__all__ = ["v1", "v2"]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat",))
