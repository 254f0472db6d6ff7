"""Keeps the variables that a program's host_call makes, such as the variables of tf.metrics.

Octet traces a host_call once for each loop. Each trace must get the first trace's variables;
otherwise a metric would start to count again.
"""

import collections
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

# Reference to a variable → function that returns its initial value.
_initial_values: dict[Any, Callable] = {}


def keeping_variables(host_call: Any) -> Any:
  """Wraps a host_call (fn, tensors) so that each call gets the variables of the first one."""
  if host_call is None:
    return None
  fn, tensors = host_call
  made: dict[tuple[str, int], tf.Variable] = {}

  @functools.wraps(fn)
  def call(*args: Any, **kwargs: Any) -> Any:
    asked: collections.Counter[str] = collections.Counter()
    is_made = False
    added: list[tuple[list[Any], tf.Variable]] = []

    def creator(next_creator: Callable, **given: Any) -> tf.Variable:
      nonlocal is_made
      # `_make` calls tf.Variable, which calls this creator again: let that call through.
      if is_made:
        return next_creator(**given)
      name = given.get("name") or "Variable"
      # One name may occur several times, for example `total` of two metrics. The order of creation
      # is the same in each trace, so the count identifies the variable.
      key = name, asked[name]
      asked[name] += 1
      if key not in made:
        is_made = True
        made[key] = _make(given)
        is_made = False
      for collection in given.get("collections") or [v1.GraphKeys.GLOBAL_VARIABLES]:
        found = v1.get_collection_ref(collection)
        found.append(made[key])
        added.append((found, made[key]))
      return made[key]

    try:
      with tf.variable_creator_scope(creator):
        return fn(*args, **kwargs)
    finally:  # functions' graphs share their collections of variables with all graphs around
      for found, variable in added:
        found[:] = [one for one in found if one is not variable]

  return call, tensors


def _make(given: dict[str, Any]) -> tf.Variable:
  value = given["initial_value"]
  initial_value = value if callable(value) else lambda: value
  # Create the variable outside of the traced graph: it must survive the trace.
  with tf.init_scope():
    variable = tf.Variable(
      initial_value(),
      trainable=False,
      name=given.get("name"),
      dtype=given.get("dtype"),
      experimental_enable_variable_lifting=False,
    )
  _initial_values[variable.ref()] = initial_value
  return variable


def variables_initializer(var_list: Any, name: str = "init") -> Any:
  """Returns an operation that assigns the variables' initial values."""
  made = [one for one in var_list if one.ref() in _initial_values]
  others = [one for one in var_list if one.ref() not in _initial_values]
  if not made:
    return v1.variables_initializer(others, name)
  own = [one.assign(_initial_values[one.ref()]()).op for one in made]
  return tf.group(*own, v1.variables_initializer(others), name=name)
