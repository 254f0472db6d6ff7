"""The engine TensorFlow, with a frozen graph."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from trainer.outputs import freezing
from trainer.outputs.engines import engine


class TensorFlowEngine(engine.Engine):
  """Runs a frozen signature.

  Args:
    frozen: the frozen signature.
  """

  name = "tensorflow"

  def __init__(self, frozen: freezing.Frozen) -> None:
    self._frozen = frozen

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    tensors = {name: tf.convert_to_tensor(array) for name, array in features.items()}
    return {name: tensor.numpy() for name, tensor in self._frozen(**tensors).items()}
