"""tf.metrics, as in 2.15; in a model_fn that is evaluated, see `graph_mode.metric_pairs`."""

from trainer.compat.names import overlay

__getattr__, __dir__ = overlay.behind(
  __name__, ("trainer.compat.graph_mode.metrics", "tensorflow.compat.v1.metrics")
)
