"""Updates of variables that are equal on all replicas, made by each replica on its own copy."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.internals import patches, tensorflow_internals
from trainer.tracing import store_run


def update_each(
  update: Callable[..., Any], targets: Sequence[tf.Variable], *values: Sequence[Any]
) -> None:
  """Calls update(target, *values) for each target, on every replica's own copy.

  Call it on a replica. An assignment by itself would send the first replica's value to the others.

  Args:
    update: function that assigns to its first argument; the same on all replicas.
    targets: variables.
    values: for each further argument of `update` its values, one for each target.
  """

  def merged(strategy, targets, *values):
    for target, *value in zip(targets, *values, strict=True):
      strategy.extended.update(target, update, args=tuple(value), group=False)

  tf.__internal__.distribute.interim.maybe_merge_call(
    merged, tf.distribute.get_strategy(), targets, *values
  )


@patches.replaces(*tensorflow_internals.UPDATE_ON_REPLICA, inside=store_run.REPLICA_GRAPH)
def _update_replica(original, variable, update, value, **kwargs):
  """Lets each replica assign to its own copy under tf.cond, where replicas cannot wait.

  Only of a variable like the global step, of which replica 0's value is that of all.
  """
  is_in_branch = tf.compat.v1.get_default_graph() is not store_run.replica_graph()
  if is_in_branch and variable.aggregation == tf.VariableAggregation.ONLY_FIRST_REPLICA:
    return update(tensorflow_internals.own_copy(variable), value, **kwargs)
  return original(variable, update, value, **kwargs)
