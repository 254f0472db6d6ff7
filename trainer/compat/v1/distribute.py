"""tf.distribute: TensorFlow's own, with resolvers and strategies that connect nothing when made."""

import types
from typing import Any

import tensorflow as tf

from trainer.compat.estimator.cluster_resolver import TPUClusterResolver
from trainer.compat.estimator.strategies import (
  MirroredStrategy,
  MultiWorkerMirroredStrategy,
  OneDeviceStrategy,
)
from trainer.compat.names import overlay

__all__ = ["MirroredStrategy", "MultiWorkerMirroredStrategy", "OneDeviceStrategy"]


def _with(module: Any, **own: Any) -> types.SimpleNamespace:
  """A module's names, and own ones in front of them."""
  names = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
  return types.SimpleNamespace(**(names | own))


cluster_resolver = _with(tf.distribute.cluster_resolver, TPUClusterResolver=TPUClusterResolver)
experimental = _with(
  tf.distribute.experimental, MultiWorkerMirroredStrategy=MultiWorkerMirroredStrategy
)

__getattr__, __dir__ = overlay.behind(
  __name__, ("tensorflow.compat.v1.distribute", "tensorflow.distribute")
)
