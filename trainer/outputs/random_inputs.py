"""Random inputs of a model, for a caller without data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf


def make(specs: Mapping[str, Any], examples: int = 2) -> dict[str, np.ndarray] | None:
  """Makes random inputs, the same ones each time.

  Args:
    specs: name → tf.TensorSpec or tensor.
    examples: the batch size, if it is free.

  Returns:
    Name → array. None if an input is a string or has an unknown size.
  """
  random = np.random.RandomState(1)
  arrays = {}
  for name, spec in specs.items():
    if spec.dtype == tf.string or spec.shape.rank is None or None in spec.shape[1:].as_list():
      return None
    shape = [examples if size is None else size for size in spec.shape]
    values = random.rand(*shape) if spec.dtype.is_floating else random.randint(0, 2, shape)
    arrays[name] = np.asarray(values).astype(spec.dtype.as_numpy_dtype)
  return arrays
