"""`import trainer.compat.v1 as tf`: TensorFlow's v1 names, and those that left TensorFlow.

A name is looked for here, then in `tf.compat.v1`, then in `tf`. One that nobody has raises an
AbsentNameError, which says why and what to use; its import an AbsentModuleError.
"""

import sys

from trainer.compat.estimator import virtual_cores
from trainer.compat.names import absent, inner_modules, overlay

virtual_cores.prepare()
sys.meta_path += [inner_modules.InnerModules(), absent.AbsentModules()]

__getattr__, __dir__ = overlay.behind(
  __name__,
  ("tensorflow.compat.v1", "tensorflow"),
  submodules=(
    "compat",
    "contrib",
    "data",
    "distribute",
    "estimator",
    "external_configurables",
    "gin",
    "hub",
    "keras",
    "layers",
    "logging",
    "metrics",
    "nn",
    "summary",
    "test",
    "tpu",
    "tpu_function",
    "train",
    "version",
  ),
  homes=dict.fromkeys(
    (
      "disable_control_flow_v2",
      "disable_eager_execution",
      "disable_resource_variables",
      "disable_tensor_equality",
      "disable_v2_behavior",
      "disable_v2_tensorshape",
      "enable_control_flow_v2",
      "enable_eager_execution",
      "enable_resource_variables",
      "enable_tensor_equality",
      "enable_v2_behavior",
      "enable_v2_tensorshape",
      "set_random_seed",
    ),
    "trainer.compat.graph_mode.behavior",
  )
  | dict.fromkeys(("VERSION", "__version__"), "trainer.compat.v1.version")
  | {
    "gradients": "trainer.compat.graph_mode.differentiation",
    "variables_initializer": "trainer.compat.graph_mode.host_calls",
  }
  | dict.fromkeys(
    ("placeholder", "placeholder_with_default", "sparse_placeholder"),
    "trainer.compat.graph_mode.placeholders",
  ),
)
