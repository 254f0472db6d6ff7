"""`import trainer.compat.v2 as tf`: the names of TensorFlow 2, with `tf.estimator` of 2.15.

The estimators are those of `trainer.compat.v1`; what differs is which names there are and what they
mean: `tf.nn.dropout(x, rate)`, `tf.losses` and `tf.metrics` of Keras, canned estimators whose loss
is a mean and whose optimizers are Keras's. `tf.compat.v1` is `trainer.compat.v1`. A name that is
not here is TensorFlow's own, if it has it.
"""

from trainer.compat.names import overlay

_SHARED = ("compat", "distribute", "external_configurables", "gin", "hub")

__getattr__, __dir__ = overlay.behind(
  __name__,
  ("tensorflow",),
  submodules=("estimator", "keras", "summary", "version"),
  homes=dict.fromkeys(_SHARED, "trainer.compat.v1")
  | {
    "__version__": "trainer.compat.v2.version",
    "gradients": "trainer.compat.v2.differentiation",
    "losses": "trainer.compat.v2.keras",
    "metrics": "trainer.compat.v2.keras",
    "optimizers": "trainer.compat.v2.keras",
  },
)
