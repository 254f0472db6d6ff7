"""tf.metrics of 2.15. For an evaluated model_fn, see `metric_pairs`."""

import tensorflow as tf

from trainer.compat.graph_mode import metric_pairs

__all__ = [name for name in dir(tf.compat.v1.metrics) if not name.startswith("_")]

for _name in __all__:
  globals()[_name] = metric_pairs.deferrable(getattr(tf.compat.v1.metrics, _name))
