"""tf.contrib.slim: layers, arg_scope, and the ways to variables and losses."""

import tensorflow as tf

from trainer.compat.layers import contrib as layers
from trainer.compat.names import overlay
from trainer.compat.v1.contrib import framework
from trainer.compat.v1.contrib import tfexample_decoder as tfexample_decoder

v1 = tf.compat.v1

losses = v1.losses

# Those of contrib.layers that slim had not, or had from contrib.framework.
_NOT_OF_SLIM = {
  "OPTIMIZER_CLS_NAMES",
  "OPTIMIZER_SUMMARIES",
  "apply_regularization",
  "model_variable",
  "optimize_loss",
  "xavier_initializer_conv2d",
}
_LAYERS = [name for name in layers.__all__ if name not in _NOT_OF_SLIM]

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
  | dict.fromkeys(_LAYERS, layers.__name__),
)
