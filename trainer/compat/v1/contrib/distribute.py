"""tf.contrib.distribute: strategies as programs give them to RunConfig."""

from trainer.compat.estimator.strategies import (
  AllReduceCrossDeviceOps,
  CollectiveAllReduceStrategy,
  DistributeConfig,
  MirroredStrategy,
  OneDeviceStrategy,
)
from trainer.compat.names import overlay

__all__ = [
  "AllReduceCrossDeviceOps",
  "CollectiveAllReduceStrategy",
  "DistributeConfig",
  "MirroredStrategy",
  "OneDeviceStrategy",
]

__getattr__, __dir__ = overlay.behind(
  __name__, ("tensorflow.compat.v1.distribute", "tensorflow.distribute")
)
