"""Updates of variables that all replicas change alike, each on its own copy."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def update_each(
  update: Callable[..., Any], targets: Sequence[tf.Variable], *values: Sequence[Any]
) -> None:
  """Calls update(target, *values) for each target, on every replica's own copy.

  Call it on a replica. A plain assignment would send the first replica's value to the others.

  Args:
    update: function that assigns to its first argument; the same on all replicas.
    targets: variables.
    values: for each further argument of `update`, one value per target.
  """

  def merged(strategy, targets, *values):
    for target, *value in zip(targets, *values, strict=True):
      strategy.extended.update(target, update, args=tuple(value), group=False)

  tf.__internal__.distribute.interim.maybe_merge_call(
    merged, tf.distribute.get_strategy(), targets, *values
  )
