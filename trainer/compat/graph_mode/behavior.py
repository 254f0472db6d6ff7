"""Switches of the whole process: here they change only what the program's own functions see.

Octet runs on TensorFlow 2's behavior. It always traces a model_fn into a graph, so the behavior
that a program disables for graph mode is off there already.
"""

from typing import Any

from trainer.compat.graph_mode import habits


def disable_v2_behavior() -> None:
  """Makes unknown dimensions tf.Dimension. A model_fn has TensorFlow 1's other behavior already."""
  habits.keep_dimensions(True)


def enable_v2_behavior() -> None:
  """Makes unknown dimensions of shapes None."""
  habits.keep_dimensions(False)


def _nothing(*args: Any, **kwargs: Any) -> None:
  """Does nothing: the behavior holds already."""


disable_v2_tensorshape, enable_v2_tensorshape = disable_v2_behavior, enable_v2_behavior
# A model_fn and its input are graphs. Outside of both, execution is eager.
disable_eager_execution = enable_eager_execution = _nothing
# Variables are resource variables.
disable_resource_variables = enable_resource_variables = _nothing
# Control flow is TensorFlow 2's.
disable_control_flow_v2 = enable_control_flow_v2 = _nothing
# In a model_fn, `==` between tensors is identity.
disable_tensor_equality = enable_tensor_equality = _nothing


def set_random_seed(seed: int) -> None:
  """Seeds eager operations outside of a model_fn; a run's seed is RunConfig.tf_random_seed."""
  import tensorflow as tf

  tf.random.set_seed(seed)
