"""What all engines have in common."""

import abc
import os
from collections.abc import Mapping

import numpy as np


class Engine(abc.ABC):
  """Runs a model. Threads may call it at the same time.

  Attributes:
    name: one of `engines.NAMES`.
  """

  name: str

  @abc.abstractmethod
  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by name of features by name; the first axis of all is the batch."""


def cpu_count() -> int:
  """CPUs that this process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1
