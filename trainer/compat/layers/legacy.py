"""The layers of tf.layers that TensorFlow's wheel has; their variables and scopes are base.Layer's.

The wheel has no batch normalization: see `normalization`.
"""

from typing import Any

import keras

from trainer.compat.layers import base
from trainer.internals.tensorflow_internals import TF_LAYERS, TF_LAYERS_CONVOLUTIONAL
from trainer.internals.tensorflow_internals import TF_LAYERS_POOLING as _POOLING


def _layer(of_wheel: type) -> Any:
  # The wheel's class first: its __init__, build and call; base.Layer has no call of its own.
  own = {"__module__": __name__, "__doc__": of_wheel.__doc__}
  return base.Mixing(of_wheel.__name__, (of_wheel, base.Layer), own)


Dense = _layer(TF_LAYERS.Dense)
Dropout = _layer(TF_LAYERS.Dropout)
Flatten = _layer(TF_LAYERS.Flatten)
dense = base.function(Dense)
dropout = base.function(Dropout, "training")
flatten = base.function(Flatten)

Conv1D = _layer(TF_LAYERS_CONVOLUTIONAL.Conv1D)
Conv2D = _layer(TF_LAYERS_CONVOLUTIONAL.Conv2D)
Conv3D = _layer(TF_LAYERS_CONVOLUTIONAL.Conv3D)
Conv2DTranspose = _layer(TF_LAYERS_CONVOLUTIONAL.Conv2DTranspose)
Conv3DTranspose = _layer(TF_LAYERS_CONVOLUTIONAL.Conv3DTranspose)
SeparableConv1D = _layer(TF_LAYERS_CONVOLUTIONAL.SeparableConv1D)
SeparableConv2D = _layer(TF_LAYERS_CONVOLUTIONAL.SeparableConv2D)
conv1d, conv2d, conv3d = map(base.function, (Conv1D, Conv2D, Conv3D))
conv2d_transpose, conv3d_transpose = map(base.function, (Conv2DTranspose, Conv3DTranspose))
separable_conv1d, separable_conv2d = map(base.function, (SeparableConv1D, SeparableConv2D))

AveragePooling1D = _layer(_POOLING.AveragePooling1D)
AveragePooling2D = _layer(_POOLING.AveragePooling2D)
AveragePooling3D = _layer(_POOLING.AveragePooling3D)
MaxPooling1D = _layer(_POOLING.MaxPooling1D)
MaxPooling2D = _layer(_POOLING.MaxPooling2D)
MaxPooling3D = _layer(_POOLING.MaxPooling3D)
average_pooling1d = base.function(AveragePooling1D)
average_pooling2d = base.function(AveragePooling2D)
average_pooling3d = base.function(AveragePooling3D)
max_pooling1d, max_pooling2d = map(base.function, (MaxPooling1D, MaxPooling2D))
max_pooling3d = base.function(MaxPooling3D)

# tf.layers had no such layer: programs derive one from Keras's and tf.layers.Layer.
DepthwiseConv2D = _layer(TF_LAYERS_CONVOLUTIONAL.keras_layers.DepthwiseConv2D)
base.stands_for(keras.layers.DepthwiseConv2D, DepthwiseConv2D)
base.stands_for(keras.layers.SeparableConv2D, SeparableConv2D)
