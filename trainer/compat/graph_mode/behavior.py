"""Switches of the whole process: here they change only what the program's own functions see.

Octet runs on TensorFlow 2's behavior. It always traces a model_fn into a graph, so the behavior
that a program disables for graph mode is off there already.
"""

from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import habits

_is_eager = True  # what the program chose
_is_v2 = False


def executing_eagerly() -> bool:
  """As in TensorFlow, where False also stands for a program that has disabled eager execution."""
  return _is_eager and tf.executing_eagerly()


def disable_eager_execution() -> None:
  """Makes `executing_eagerly` False. A model_fn and its input are graphs already."""
  global _is_eager
  _is_eager = False


def enable_eager_execution(*args: Any, **kwargs: Any) -> None:
  """Makes `executing_eagerly` True outside of graphs."""
  global _is_eager
  _is_eager = True


def is_v2() -> bool:
  """tensorflow.python.tf2.enabled: as in 1.15, False until the program calls enable_v2_behavior."""
  return _is_v2


def disable_v2_behavior() -> None:
  """Makes unknown dimensions tf.Dimension, and `executing_eagerly` and `tf2.enabled` False."""
  global _is_v2
  _is_v2 = False
  habits.keep_dimensions(True)
  disable_eager_execution()


def enable_v2_behavior() -> None:
  """Makes unknown dimensions of shapes None, and `executing_eagerly` True outside of graphs."""
  global _is_v2
  _is_v2 = True
  habits.keep_dimensions(False)
  enable_eager_execution()


def disable_v2_tensorshape() -> None:
  """Makes unknown dimensions tf.Dimension."""
  habits.keep_dimensions(True)


def enable_v2_tensorshape() -> None:
  """Makes unknown dimensions of shapes None."""
  habits.keep_dimensions(False)


def _nothing(*args: Any, **kwargs: Any) -> None:
  """Does nothing: the behavior holds already."""


# Variables are resource variables.
disable_resource_variables = enable_resource_variables = _nothing
# Control flow is TensorFlow 2's.
disable_control_flow_v2 = enable_control_flow_v2 = _nothing
# In a model_fn, `==` between tensors is identity.
disable_tensor_equality = enable_tensor_equality = _nothing


def set_random_seed(seed: int) -> None:
  """Seeds eager operations outside of a model_fn; a run's seed is RunConfig.tf_random_seed."""
  tf.random.set_seed(seed)
