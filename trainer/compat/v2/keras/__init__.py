"""tf.keras for programs of TensorFlow 2: Keras 3, with what estimators need of Keras 2."""

from trainer.compat.names import overlay

__getattr__, __dir__ = overlay.behind(
  __name__,
  ("trainer.compat.v1.keras",),
  submodules=("layers", "losses", "metrics", "optimizers"),
  homes={"saving": "keras"},
)
