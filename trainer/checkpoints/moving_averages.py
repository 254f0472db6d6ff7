"""Supports `tf.compat.v1.train.ExponentialMovingAverage` in a model_fn.

An average starts from its variable's value at the beginning of a training, even if that value comes
from a checkpoint. `variables_to_restore` returns the training's names of averages.
"""

from collections.abc import Collection

import tensorflow as tf

from trainer.checkpoints import initial_checkpoints
from trainer.internals import patches
from trainer.tracing import variable_store

v1 = tf.compat.v1

_Average = v1.train.ExponentialMovingAverage


def initialize(store: variable_store.VariableStore, given: Collection[str]) -> None:
  """Assigns to each average the value of its variable, at the beginning of a training.

  Args:
    store: the model's variables.
    given: names of averages that got values of their own; they keep these.
  """
  for average, variable in store.averages.items():
    if average not in given and {average, variable} <= store.variables.keys():
      store.variables[average].assign(store.variables[variable].read_value())


@patches.replaces(_Average, "apply")
def _apply(original, average, var_list=None):
  applied = original(average, var_list)
  store = variable_store.current()
  if store is not None:
    present = store.present()
    for variable in v1.trainable_variables() if var_list is None else var_list:
      names = [
        initial_checkpoints.name_of(v, present) for v in (average.average(variable), variable)
      ]
      if None not in names:
        store.averages[names[0]] = names[1]
  return applied


@patches.replaces(_Average, "average_name")
def _average_name(original, average, var):
  if variable_store.current() is None:
    return original(average, var)
  made = average.average(var)  # None without a call of `apply`, as in an evaluation.
  return f"{var.op.name}/{average.name}" if made is None else made.op.name


@patches.replaces(_Average, "variables_to_restore")
def _variables_to_restore(original, average, moving_avg_variables=None):
  """Does TensorFlow's work without a set of variables: TF2's variables are not hashable."""
  if variable_store.current() is None:
    return original(average, moving_avg_variables)
  averaged = moving_avg_variables
  if averaged is None:
    averaged = [*v1.trainable_variables(), *v1.moving_average_variables()]
  names = {average.average_name(variable): variable for variable in averaged}
  of_averaged = {variable.op.name for variable in averaged}
  for variable in v1.global_variables():
    if variable.op.name not in of_averaged:
      names.setdefault(variable.op.name, variable)
  return names
