"""Regularizers of Keras 3 with the arguments of Keras 2: `l2(l=0.1)`."""

from typing import Any

import keras

__all__ = ["L1", "L2", "l1", "l1_l2", "l2"]


class L1(keras.regularizers.L1):
  """`tf.keras.regularizers.L1`; `l` is an older name of the argument."""

  __module__ = "keras.regularizers"  # a saved layer names Keras's own class

  def __init__(self, l1: float = 0.01, **older: Any):
    super().__init__(older.pop("l", l1), **older)


class L2(keras.regularizers.L2):
  """`tf.keras.regularizers.L2`; `l` is an older name of the argument."""

  __module__ = "keras.regularizers"

  def __init__(self, l2: float = 0.01, **older: Any):
    super().__init__(older.pop("l", l2), **older)


l1, l2 = L1, L2


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> keras.regularizers.L1L2:
  """`tf.keras.regularizers.l1_l2`: Keras 3 has other defaults."""
  return keras.regularizers.L1L2(l1, l2)
