"""`import trainer.compat.v2 as tf`: the names of TensorFlow 2, with `tf.estimator` of 2.15.

The estimators are those of `trainer.compat.v1`; what differs is which names there are and what they
mean: `tf.nn.dropout(x, rate)`, `tf.losses` and `tf.metrics` of Keras, canned estimators whose loss
is a mean and whose optimizers are Keras's. `tf.compat.v1` is `trainer.compat.v1`. A name that is
not here is TensorFlow's own, if it has it.
"""

import types

from trainer.compat import v1
from trainer.compat.names import modules
from trainer.compat.names.modules import Names

_VERSION = "2.15.1"  # the last TensorFlow with tf.estimator

# Keras 3 takes no "auto", the value that AUTO had: it was the mean outside of a strategy's loops.
_REDUCTION = types.SimpleNamespace(
  AUTO="sum_over_batch_size", NONE="none", SUM="sum", SUM_OVER_BATCH_SIZE="sum_over_batch_size"
)

# By module, what it has; see trainer.compat.v1.
MODULES = {
  "": Names(
    "tensorflow",
    homes={
      "trainer.compat.v1": "compat distribute external_configurables gin hub",
      "trainer.compat.v2.keras": "losses metrics optimizers",
      ".graph_mode.differentiation": "gradients=gradients_of_2",
    },
    __version__=_VERSION,
  ),
  "estimator": Names(
    homes=v1.ESTIMATOR
    | {".estimator.canned.of_keras": v1.CANNED, "trainer.compat.v1.estimator": "export"}
  ),
  "estimator.experimental": Names(
    homes={
      "trainer.compat.v1.estimator.experimental": f"""{v1.EARLY_STOPPING} InMemoryEvaluatorHook
        call_logit_fn"""
    }
  ),
  "keras": Names("trainer.compat.v1.keras", homes={"keras": "saving"}),
  "keras.experimental": Names(
    homes={"tensorflow.keras.optimizers.schedules": "CosineDecay CosineDecayRestarts"}
  ),
  "keras.layers": Names(".layers.of_keras", "tensorflow.keras.layers"),
  # Functions of losses and metrics also have the names that Keras 3 has in its own package.
  "keras.losses": Names("tensorflow.keras.losses", "keras.losses", Reduction=_REDUCTION),
  "keras.metrics": Names("tensorflow.keras.metrics", "keras.metrics"),
  "keras.optimizers": Names(".optimizers.of_keras", "tensorflow.keras.optimizers"),
  "summary": Names("tensorflow.summary", homes={".graph_mode.summary": "create_file_writer"}),
  "version": Names("tensorflow.version", VERSION=_VERSION, __version__=_VERSION),
}

__getattr__, __dir__ = modules.add(__name__, MODULES)
