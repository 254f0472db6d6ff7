"""tf.contrib.framework: arg_scope, and the ways to variables and checkpoints."""

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
  """get_variable, whose defaults arg_scope can set."""
  kwargs.pop("device", None)
  return v1.get_variable(name, shape, **kwargs)


@add_arg_scope
def model_variable(name: str, shape: Any = None, **kwargs: Any) -> tf.Variable:
  """A variable that is in MODEL_VARIABLES too."""
  kwargs.pop("device", None)
  return common.model_variable(name, shape, **kwargs)


def get_variables(
  scope: Any = None, suffix: str | None = None, collection: str = v1.GraphKeys.GLOBAL_VARIABLES
) -> list[tf.Variable]:
  """Variables of a collection, in a scope, whose names end with a suffix."""
  if isinstance(scope, v1.VariableScope):
    scope = scope.name
  if suffix is not None:
    suffix = suffix if ":" in suffix else suffix + ":0"
    scope = (scope or "") + ".*" + suffix
  return v1.get_collection(collection, scope)


def get_variables_to_restore(
  include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
) -> list[tf.Variable]:
  """All variables, or those in some scopes, but for those in others."""
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
  """Those in MODEL_VARIABLES."""
  return get_variables(scope, suffix, v1.GraphKeys.MODEL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[tf.Variable]:
  """Those that are trained."""
  return get_variables(scope, suffix, v1.GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[tf.Variable]:
  """Those of this last name, in a scope."""
  suffix = "/" + given_name + ":0|^" + given_name + ":0"
  return get_variables(scope, suffix)


def assign_from_checkpoint_fn(
  model_path: str, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Callable[[Any], None]:
  """An init_fn: gives the variables of a session the values of a checkpoint.

  In a model_fn, which has no session, the variables begin with them.

  Args:
    model_path: the checkpoint.
    var_list: list of variables, or dict of name in the checkpoint → variable.
    ignore_missing_vars: whether to leave out what the checkpoint does not have.
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
  """(operation, feed_dict) that give variables the values of a checkpoint; see above."""
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
  """dict of name in the checkpoint → variable."""
  found = var_list if isinstance(var_list, dict) else {one.op.name: one for one in var_list}
  if ignore_missing_vars:
    there = {name for name, _ in tf.train.list_variables(model_path)}
    found = {name: one for name, one in found.items() if name in there}
  return found


def _begins_with(model_path: str, var_list: dict[str, Any]) -> bool:
  """Whether this is in a model_fn, where the variables now begin with the checkpoint's values."""
  if not habits.are_enabled():
    return False
  v1.train.init_from_checkpoint(model_path, var_list)
  return True


def with_shape(expected_shape: Any, tensor: tf.Tensor) -> tf.Tensor:
  """The tensor, whose shape is checked."""
  return tf.ensure_shape(tensor, expected_shape)
