"""`import trainer.compat.v2 as tf`: the names of TensorFlow 2, with `tf.estimator` of 2.15.

The estimators are those of `trainer.compat.v1`, but names and meanings differ:
`tf.nn.dropout(x, rate)`, `tf.losses` and `tf.metrics` are Keras's, and canned estimators have a
mean as the loss and Keras's optimizers. `tf.compat.v1` is `trainer.compat.v1`. Any other name is
TensorFlow's own.
"""

import types

from trainer.compat import v1
from trainer.compat.names import modules
from trainer.compat.names.modules import Names

_VERSION = "2.15.1"  # the last TensorFlow with tf.estimator

# AUTO has the value of the mean: a head takes no "auto".
_REDUCTION = types.SimpleNamespace(
  AUTO="sum_over_batch_size", NONE="none", SUM="sum", SUM_OVER_BATCH_SIZE="sum_over_batch_size"
)

_OPTIMIZERS = "Adadelta Adagrad Adam Adamax Ftrl RMSprop SGD"

# Module → its names; see trainer.compat.v1.
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
    homes={"trainer.compat.v1.estimator.experimental": f"{v1.EARLY_STOPPING} call_logit_fn"}
  ),
  "keras": Names("trainer.compat.v1.keras", homes={"keras": "saving"}),
  "keras.experimental": Names(
    homes={"tensorflow.keras.optimizers.schedules": "CosineDecay CosineDecayRestarts"}
  ),
  **{
    f"keras.{module}": Names(f"trainer.compat.v1.keras.{module}")
    for module in ("backend", "estimator")
  },
  "keras.layers": Names(".layers.of_keras", "tensorflow.keras.layers"),
  "keras.layers.experimental": Names(
    homes={"keras.layers": "EinsumDense", ".layers.of_keras": "SyncBatchNormalization"}
  ),
  "keras.layers.experimental.preprocessing": Names(
    homes={
      "keras.layers": """CategoryEncoding CenterCrop Discretization HashedCrossing Hashing
        IntegerLookup Normalization RandomContrast RandomCrop RandomFlip RandomRotation
        RandomTranslation RandomZoom Rescaling Resizing StringLookup TextVectorization"""
    }
  ),
  # Functions of losses and metrics also have the names in Keras 3's own package.
  "keras.losses": Names(
    ".layers.losses_of_keras", "tensorflow.keras.losses", "keras.losses", Reduction=_REDUCTION
  ),
  "keras.metrics": Names("tensorflow.keras.metrics", "keras.metrics"),
  "keras.optimizers": Names(".optimizers.of_keras", "tensorflow.keras.optimizers"),
  "keras.optimizers.experimental": Names(
    homes={
      ".optimizers.of_keras": _OPTIMIZERS,
      "keras.optimizers": "AdamW Adafactor Nadam Optimizer",
    }
  ),
  "keras.optimizers.legacy": Names(
    homes={".optimizers": "Optimizer", ".optimizers.kinds": _OPTIMIZERS}
  ),
  "keras.regularizers": Names(".layers.regularizers_of_keras", "tensorflow.keras.regularizers"),
  "summary": Names("tensorflow.summary", homes={".graph_mode.summary": "create_file_writer"}),
  "tf2": Names("tensorflow.__internal__.tf2"),
  "version": Names("tensorflow.version", VERSION=_VERSION, __version__=_VERSION),
}

__getattr__, __dir__ = modules.add(__name__, MODULES)
