"""tf.contrib.distribute: strategies as programs give them to RunConfig."""

from trainer.compat.v1 import overlay
from trainer.compat.v1.strategies import (
  CollectiveAllReduceStrategy,
  DistributeConfig,
  MirroredStrategy,
  OneDeviceStrategy,
)

__all__ = [
  "CollectiveAllReduceStrategy",
  "DistributeConfig",
  "MirroredStrategy",
  "OneDeviceStrategy",
]

__getattr__, __dir__ = overlay.behind(
  __name__, ("tensorflow.compat.v1.distribute", "tensorflow.distribute")
)
