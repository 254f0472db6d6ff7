"""tf.contrib.layers, and what slim has of it: layers as functions, in scopes and with variables
named as they were (`Conv/weights`, `fully_connected/biases`, `BatchNorm/beta`, `LayerNorm/gamma`).
"""

from trainer.compat.layers.contrib.common import model_variable
from trainer.compat.layers.contrib.convolutions import (
  conv1d,
  conv2d,
  conv2d_transpose,
  conv3d,
  convolution,
  convolution2d,
  separable_conv2d,
  separable_convolution2d,
)
from trainer.compat.layers.contrib.dense import bias_add, fully_connected, linear, relu
from trainer.compat.layers.contrib.group_normalizations import group_norm, instance_norm
from trainer.compat.layers.contrib.normalizations import batch_norm, layer_norm
from trainer.compat.layers.contrib.optimize_loss import (
  OPTIMIZER_CLS_NAMES,
  OPTIMIZER_SUMMARIES,
  optimize_loss,
)
from trainer.compat.layers.contrib.regularizers import (
  apply_regularization,
  l1_l2_regularizer,
  l1_regularizer,
  l2_regularizer,
  sum_regularizer,
  variance_scaling_initializer,
  xavier_initializer,
  xavier_initializer_conv2d,
)
from trainer.compat.layers.contrib.repeated import repeat, stack
from trainer.compat.layers.contrib.without_variables import (
  avg_pool2d,
  dropout,
  flatten,
  max_pool2d,
  one_hot_encoding,
  softmax,
)

__all__ = [
  "OPTIMIZER_CLS_NAMES",
  "OPTIMIZER_SUMMARIES",
  "apply_regularization",
  "avg_pool2d",
  "batch_norm",
  "bias_add",
  "conv1d",
  "conv2d",
  "conv2d_transpose",
  "conv3d",
  "convolution",
  "convolution2d",
  "dropout",
  "flatten",
  "fully_connected",
  "group_norm",
  "instance_norm",
  "l1_l2_regularizer",
  "l1_regularizer",
  "l2_regularizer",
  "layer_norm",
  "linear",
  "max_pool2d",
  "model_variable",
  "one_hot_encoding",
  "optimize_loss",
  "relu",
  "repeat",
  "separable_conv2d",
  "separable_convolution2d",
  "softmax",
  "stack",
  "sum_regularizer",
  "variance_scaling_initializer",
  "xavier_initializer",
  "xavier_initializer_conv2d",
]
