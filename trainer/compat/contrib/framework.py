"""tf.contrib.framework: arg_scope, and functions that find variables and read checkpoints."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import habits
from trainer.compat.layers.contrib import common
from trainer.compat.layers.contrib.arg_scopes import add_arg_scope

v1 = tf.compat.v1


@add_arg_scope
def variable(name: str, shape: Any = None, **kwargs: Any) -> tf.Variable:
  """As get_variable; arg_scope can set its defaults."""
  kwargs.pop("device", None)
  return v1.get_variable(name, shape, **kwargs)


@add_arg_scope
def model_variable(name: str, shape: Any = None, **kwargs: Any) -> tf.Variable:
  """Makes a variable that is in MODEL_VARIABLES too."""
  kwargs.pop("device", None)
  return common.model_variable(name, shape, **kwargs)


def get_variables(
  scope: Any = None, suffix: str | None = None, collection: str = v1.GraphKeys.GLOBAL_VARIABLES
) -> list[tf.Variable]:
  """Returns a collection's variables in a scope, with names that end with the suffix."""
  if isinstance(scope, v1.VariableScope):
    scope = scope.name
  if suffix is not None:
    suffix = suffix if ":" in suffix else suffix + ":0"
    scope = (scope or "") + ".*" + suffix
  return v1.get_collection(collection, scope)


def get_variables_to_restore(
  include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
) -> list[tf.Variable]:
  """Returns all variables, or those in the scopes `include`, without the scopes `exclude`."""
  found = get_variables() if include is None else [v for s in include for v in get_variables(s)]
  excluded = tuple(exclude or ())
  unique: list[tf.Variable] = []
  for one in found:
    if not any(re.match(scope, one.name) for scope in excluded) and not any(
      one is other for other in unique
    ):
      unique.append(one)
  return unique


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[tf.Variable]:
  """Returns the variables in MODEL_VARIABLES."""
  return get_variables(scope, suffix, v1.GraphKeys.MODEL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[tf.Variable]:
  """Returns the trainable variables."""
  return get_variables(scope, suffix, v1.GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[tf.Variable]:
  """Returns the variables with this last name, in a scope."""
  suffix = "/" + given_name + ":0|^" + given_name + ":0"
  return get_variables(scope, suffix)


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
