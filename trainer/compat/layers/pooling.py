"""Average and maximum over windows in one, two and three dimensions."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.layers import base, convolutional


class _Pooling(base.Layer):
  """The common part of poolings."""

  rank = 0
  # Not tf.nn.pool: it refuses strides longer than the window, and ResNets have such strides.
  pool: Callable[..., tf.Tensor]

  def __init__(
    self,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    **layer: Any,
  ):
    super().__init__(**layer)
    self.pool_size = base.several(pool_size, self.rank, "pool_size")
    self.strides = base.several(strides, self.rank, "strides")
    self.padding = padding.upper()
    self.data_format = data_format

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    return self.pool(
      inputs,
      self.pool_size,
      self.strides,
      self.padding,
      convolutional.FORMATS[self.rank][self.data_format == "channels_first"],
    )


_AXES = {1: "steps", 2: "height and width", 3: "depth, height and width"}


def _over(rank: int, kind: str, pool: Callable[..., tf.Tensor], what: str) -> type[_Pooling]:
  """Returns the class of a kind of pooling over a number of axes."""
  own = {"rank": rank, "pool": staticmethod(pool), "__module__": __name__}
  own["__doc__"] = f"The {what} of windows of {_AXES[rank]}."
  return base.Mixing(f"{kind}Pooling{rank}D", (_Pooling,), own)


_AVERAGES = [_over(rank, "Average", tf.nn.avg_pool, "average") for rank in _AXES]
_MAXIMA = [_over(rank, "Max", tf.nn.max_pool, "maximum") for rank in _AXES]
AveragePooling1D, AveragePooling2D, AveragePooling3D = _AVERAGES
MaxPooling1D, MaxPooling2D, MaxPooling3D = _MAXIMA
average_pooling1d, average_pooling2d, average_pooling3d = map(base.function, _AVERAGES)
max_pooling1d, max_pooling2d, max_pooling3d = map(base.function, _MAXIMA)
