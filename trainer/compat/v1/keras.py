"""tf.keras: Keras 3, with the learning phase of Keras 2.

Variables have the names that Keras 2 gave them, see `graph_mode.keras_names`.
"""

from trainer.compat.graph_mode.learning_phase import backend
from trainer.compat.names import overlay

__all__ = ["backend"]

__getattr__, __dir__ = overlay.behind(
  __name__,
  ("tensorflow.keras",),
  homes={"estimator": "trainer.compat.estimator.keras_estimator"}
  # Keras is the same under the names of TensorFlow 1 and 2.
  | dict.fromkeys(("layers", "optimizers"), "trainer.compat.v2.keras"),
)
