"""Checks that TensorFlow has the behaviour of version 2, as far as Octet needs it.

Programs for TensorFlow 1 often begin with `tf.disable_v2_behavior()`, which makes everything a
graph. Parts of it are harmless: `disable_tensor_equality`, `disable_v2_tensorshape` (for
`shape[-1].value`), `disable_control_flow_v2`, `disable_resource_variables`.
"""

import tensorflow as tf

from trainer import errors
from trainer.internals import tensorflow_internals


def check() -> None:
  """Raises SettingError where eager execution is off; it names the call to take out."""
  if tf.executing_eagerly():
    return
  if not tensorflow_internals.has_v2_behavior():
    call = "tf.compat.v1.disable_v2_behavior()"
  elif not tensorflow_internals.is_eager_by_default():
    call = "tf.compat.v1.disable_eager_execution()"
  else:
    raise errors.SettingError(
      "The program calls Octet inside a tf.function or a `with tf.Graph().as_default():`, where "
      "TensorFlow records operations and runs none: call Octet outside."
    )
  raise errors.SettingError(
    f"The program, or a module that it imports, calls {call}, and Octet needs eager execution: "
    "take the call out. get_variable, variable_scope, optimizers, metrics and losses of "
    "tf.compat.v1 work in a model_fn without it."
  )
