"""Layers of tf.layers, as classes and as functions, on get_variable, with the names of TensorFlow
1; and of tf.contrib.layers and tf.nn.rnn_cell.
"""

from collections.abc import Callable
from typing import Any

from trainer.compat.layers.base import InputSpec, Layer
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

__all__ = [
  "AveragePooling1D",
  "AveragePooling2D",
  "AveragePooling3D",
  "BatchNormalization",
  "Conv1D",
  "Conv2D",
  "Conv2DTranspose",
  "Conv3D",
  "Conv3DTranspose",
  "Dense",
  "Dropout",
  "Flatten",
  "InputSpec",
  "Layer",
  "MaxPooling1D",
  "MaxPooling2D",
  "MaxPooling3D",
  "SeparableConv1D",
  "SeparableConv2D",
  "average_pooling1d",
  "average_pooling2d",
  "average_pooling3d",
  "batch_normalization",
  "conv1d",
  "conv2d",
  "conv2d_transpose",
  "conv3d",
  "conv3d_transpose",
  "dense",
  "dropout",
  "flatten",
  "max_pooling1d",
  "max_pooling2d",
  "max_pooling3d",
  "separable_conv1d",
  "separable_conv2d",
]


def _function(cls: type[Layer], *of_call: str) -> Callable[..., Any]:
  """The function of a layer: makes it in the scope of its name, and calls it.

  Args:
    of_call: arguments that are the call's.
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
