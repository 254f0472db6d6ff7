"""The engine TensorFlow runs a signature, frozen if constants can replace all of its state."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.outputs.engines import engine


class TensorFlowEngine(engine.Engine):
  """Runs a signature.

  Args:
    function: a ConcreteFunction that takes keywords and returns a dict, or a Frozen.
  """

  name = "tensorflow"

  def __init__(self, function: Any) -> None:
    self._function = function

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    tensors = {name: tf.convert_to_tensor(array) for name, array in features.items()}
    return {name: tensor.numpy() for name, tensor in self._function(**tensors).items()}
