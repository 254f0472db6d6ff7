"""The functions of tf.layers. Each makes a layer and calls it."""

from collections.abc import Callable
from typing import Any

from trainer.compat.layers.base import Layer
from trainer.compat.layers.convolutional import (
  Conv1D,
  Conv2D,
  Conv2DTranspose,
  Conv3D,
  Conv3DTranspose,
)
from trainer.compat.layers.core import Dense, Dropout, Flatten
from trainer.compat.layers.normalization import BatchNormalization
from trainer.compat.layers.pooling import (
  AveragePooling1D,
  AveragePooling2D,
  AveragePooling3D,
  MaxPooling1D,
  MaxPooling2D,
  MaxPooling3D,
)
from trainer.compat.layers.separable import SeparableConv1D, SeparableConv2D


def _function(cls: type[Layer], *of_call: str) -> Callable[..., Any]:
  """Returns a layer's function, which makes the layer in the scope of its name and calls it.

  Args:
    of_call: the arguments of the call.
  """

  def layer(
    inputs: Any, *args: Any, name: str | None = None, reuse: bool | None = None, **kwargs: Any
  ) -> Any:
    called = {key: kwargs.pop(key) for key in of_call if key in kwargs}
    return cls(*args, name=name, _reuse=reuse, _scope=name, **kwargs)(inputs, **called)

  layer.__doc__ = f"{cls.__doc__} See {cls.__name__}."
  return layer


average_pooling1d = _function(AveragePooling1D)
average_pooling2d = _function(AveragePooling2D)
average_pooling3d = _function(AveragePooling3D)
batch_normalization = _function(BatchNormalization, "training")
conv1d = _function(Conv1D)
conv2d = _function(Conv2D)
conv2d_transpose = _function(Conv2DTranspose)
conv3d = _function(Conv3D)
conv3d_transpose = _function(Conv3DTranspose)
dense = _function(Dense)
dropout = _function(Dropout, "training")
flatten = _function(Flatten)
max_pooling1d = _function(MaxPooling1D)
max_pooling2d = _function(MaxPooling2D)
max_pooling3d = _function(MaxPooling3D)
separable_conv1d = _function(SeparableConv1D)
separable_conv2d = _function(SeparableConv2D)
