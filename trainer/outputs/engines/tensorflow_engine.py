"""The engine TensorFlow, with a frozen graph."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from trainer.outputs import freezing
from trainer.outputs.engines import engine


@dataclasses.dataclass(eq=False)
class TensorFlowEngine(engine.Engine):
  """Runs a frozen signature."""

  frozen: freezing.Frozen
  name = "tensorflow"

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    tensors = {name: tf.convert_to_tensor(array) for name, array in features.items()}
    return {name: tensor.numpy() for name, tensor in self.frozen(**tensors).items()}
