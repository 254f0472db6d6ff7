"""Switches of the whole process: here they change what the program's own functions see.

Octet runs on TensorFlow 2's behavior. A model_fn is always traced into a graph, so that what a
program wants to switch off for graph mode's sake is off there already.
"""

from trainer.compat.graph_mode import habits


def disable_v2_behavior() -> None:
  """Unknown dimensions of shapes become tf.Dimension; all else is so in a model_fn already."""
  habits.keep_dimensions(True)


def enable_v2_behavior() -> None:
  """Unknown dimensions of shapes are None."""
  habits.keep_dimensions(False)


def disable_v2_tensorshape() -> None:
  """Unknown dimensions of shapes become tf.Dimension."""
  habits.keep_dimensions(True)


def enable_v2_tensorshape() -> None:
  """Unknown dimensions of shapes are None."""
  habits.keep_dimensions(False)


def disable_eager_execution() -> None:
  """Nothing: a model_fn and its input are graphs."""


def enable_eager_execution(config=None, device_policy=None, execution_mode=None) -> None:
  """Nothing: outside of a model_fn, execution is eager."""


def disable_resource_variables() -> None:
  """Nothing: variables are resource variables."""


def enable_resource_variables() -> None:
  """Nothing: variables are resource variables."""


def disable_control_flow_v2() -> None:
  """Nothing: control flow is that of TensorFlow 2."""


def enable_control_flow_v2() -> None:
  """Nothing: control flow is that of TensorFlow 2."""


def disable_tensor_equality() -> None:
  """Nothing: in a model_fn, `==` between tensors is identity."""


def enable_tensor_equality() -> None:
  """Nothing: in a model_fn, `==` between tensors is identity."""


def set_random_seed(seed: int) -> None:
  """Seeds eager operations outside of a model_fn; a run's seed is RunConfig.tf_random_seed."""
  import tensorflow as tf

  tf.random.set_seed(seed)
