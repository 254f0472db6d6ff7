"""tf.contrib: what Estimator programs used of it."""

from trainer.compat.names import overlay

__getattr__, __dir__ = overlay.behind(
  __name__,
  submodules=(
    "cluster_resolver",
    "crf",
    "data",
    "distribute",
    "estimator",
    "framework",
    "layers",
    "learn",
    "lookup",
    "metrics",
    "opt",
    "predictor",
    "rnn",
    "slim",
    "stateless",
    "summary",
    "tpu",
    "training",
  ),
)
