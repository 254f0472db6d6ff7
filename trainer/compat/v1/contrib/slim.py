"""tf.contrib.slim: layers, arg_scope, and the ways to variables and losses."""

import tensorflow as tf

from trainer.compat.v1 import overlay
from trainer.compat.v1.contrib import framework, layers

v1 = tf.compat.v1

losses = v1.losses

__getattr__, __dir__ = overlay.behind(
  __name__,
  homes=dict.fromkeys(
    (
      "add_arg_scope",
      "arg_scope",
      "assign_from_checkpoint",
      "assign_from_checkpoint_fn",
      "get_model_variables",
      "get_or_create_global_step",
      "get_trainable_variables",
      "get_variables",
      "get_variables_by_name",
      "get_variables_to_restore",
      "has_arg_scope",
      "model_variable",
      "variable",
    ),
    framework.__name__,
  )
  | dict.fromkeys(
    (
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
      "l1_l2_regularizer",
      "l1_regularizer",
      "l2_regularizer",
      "layer_norm",
      "linear",
      "max_pool2d",
      "one_hot_encoding",
      "relu",
      "repeat",
      "separable_conv2d",
      "separable_convolution2d",
      "softmax",
      "stack",
      "sum_regularizer",
      "variance_scaling_initializer",
      "xavier_initializer",
    ),
    layers.__name__,
  ),
)
