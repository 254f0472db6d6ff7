"""tf.metrics, as in 2.15; in a model_fn that is evaluated, see `estimator.metric_pairs`."""

import tensorflow as tf

from trainer.compat.v1 import overlay
from trainer.compat.v1.estimator import metric_pairs

_FUNCTIONS = [name for name in dir(tf.compat.v1.metrics) if not name.startswith("_")]

for _name in _FUNCTIONS:
  globals()[_name] = metric_pairs.deferrable(getattr(tf.compat.v1.metrics, _name))

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.metrics",))
