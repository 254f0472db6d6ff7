"""Functions of tf.contrib.framework that read checkpoints, and others that tf_slim lacks."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import habits

v1 = tf.compat.v1


def assign_from_checkpoint_fn(
  model_path: str, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Callable[[Any], None]:
  """Returns an init_fn that assigns a checkpoint's values to variables in a session.

  A model_fn has no session: there, the variables start from the checkpoint's values.

  Args:
    model_path: the checkpoint.
    var_list: list of variables, or dict of name in the checkpoint → variable.
    ignore_missing_vars: whether to skip variables that the checkpoint lacks.
  """
  del reshape_variables
  found = _to_restore(model_path, var_list, ignore_missing_vars)
  if _begins_with(model_path, found):
    return lambda session: None
  saver = v1.train.Saver(found)
  return lambda session: saver.restore(session, model_path)


def assign_from_checkpoint(
  model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, dict[str, Any]]:
  """Returns (operation, feed_dict) to assign a checkpoint's values; see above."""
  found = _to_restore(model_path, var_list, ignore_missing_vars)
  if _begins_with(model_path, found):
    return tf.no_op(), {}
  reader = tf.train.load_checkpoint(model_path)
  operations, fed = [], {}
  for name, variable in found.items():
    placeholder = v1.placeholder(variable.dtype.base_dtype, variable.shape)
    operations.append(v1.assign(variable, placeholder))
    fed[placeholder] = reader.get_tensor(name)
  return tf.group(*operations), fed


def _to_restore(model_path: str, var_list: Any, ignore_missing_vars: bool) -> dict[str, Any]:
  """Returns a dict of name in the checkpoint → variable."""
  found = var_list if isinstance(var_list, dict) else {one.op.name: one for one in var_list}
  if ignore_missing_vars:
    there = {name for name, _ in tf.train.list_variables(model_path)}
    found = {name: one for name, one in found.items() if name in there}
  return found


def _begins_with(model_path: str, var_list: dict[str, Any]) -> bool:
  """In a model_fn, makes the variables start from the checkpoint's values, and returns True."""
  if not habits.are_enabled():
    return False
  v1.train.init_from_checkpoint(model_path, var_list)
  return True


def with_shape(expected_shape: Any, tensor: tf.Tensor) -> tf.Tensor:
  """Returns the tensor after a check of its shape."""
  return tf.ensure_shape(tensor, expected_shape)


def get_name_scope() -> str:
  """Returns the name scope that is open, without a slash at its end."""
  return v1.get_default_graph().get_name_scope()
