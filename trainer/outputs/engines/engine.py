"""The interface of engines."""

import abc
from collections.abc import Mapping

import numpy as np


class Engine(abc.ABC):
  """Runs a model. Several threads may call it at the same time.

  Attributes:
    name: one of `engines.NAMES`.
  """

  name: str

  @abc.abstractmethod
  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model on a batch.

    Args:
      features: name → array; the first axis is the batch.

    Returns:
      Name of an output → array; the first axis is the batch.
    """
