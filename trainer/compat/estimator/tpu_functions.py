"""tf.tpu: its functions inside a model_fn."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer import errors

v1 = tf.compat.v1


def cross_replica_sum(x: Any, group_assignment: Any = None, name: str | None = None) -> tf.Tensor:
  """Returns the sum of a tensor over all replicas, or over the replica's own group.

  Args:
    group_assignment: list of lists of replica numbers; each replica is in exactly one list.

  Raises:
    SettingError: a replica is in no group, or in two.
  """
  x = tf.convert_to_tensor(x)
  context = tf.distribute.get_replica_context()
  count = 1 if context is None else context.num_replicas_in_sync
  if group_assignment is not None:
    _check_groups(group_assignment, count)
  if count == 1:
    return tf.identity(x, name)
  if group_assignment is None or len(group_assignment) == 1:
    return context.all_reduce(tf.distribute.ReduceOp.SUM, x)
  # Row i is replica i's value: each replica adds its own row to a sum over all replicas.
  own = tf.one_hot(context.replica_id_in_sync_group, count, dtype=x.dtype)
  rows = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.tensordot(own, x, 0))
  together = [[float(any(i in g and j in g for g in group_assignment)) for j in range(count)]
              for i in range(count)]  # fmt: skip
  mine = tf.gather(tf.constant(together, x.dtype), context.replica_id_in_sync_group)
  return tf.tensordot(mine, rows, 1)


def _check_groups(groups: Any, count: int) -> None:
  if sorted(replica for group in groups for replica in group) != list(range(count)):
    raise errors.SettingError(
      f"tf.tpu.cross_replica_sum(group_assignment={groups}): each of the {count} replicas has to "
      "be in one group."
    )


@contextlib.contextmanager
def bfloat16_scope(name: str | None = None) -> Iterator[Any]:
  """Inside, get_variable makes float32 variables, and returns them as bfloat16 on request."""

  def in_float32(getter: Any, *args: Any, **kwargs: Any) -> Any:
    wanted = kwargs.get("dtype")
    if wanted is not None and tf.as_dtype(wanted) == tf.bfloat16:
      kwargs["dtype"] = tf.float32
      kwargs["initializer"] = _initializer_in_float32(kwargs.get("initializer"))
      return tf.cast(getter(*args, **kwargs), tf.bfloat16)
    return getter(*args, **kwargs)

  scope = name if name is not None else v1.get_variable_scope()
  with v1.variable_scope(scope, custom_getter=in_float32, auxiliary_name_scope=False) as found:
    yield found


def _initializer_in_float32(initializer: Any) -> Any:
  if initializer is None or tf.is_tensor(initializer) or not callable(initializer):
    return initializer

  def make(shape: Any, dtype: Any = None, **others: Any) -> tf.Tensor:
    del dtype
    return initializer(shape, dtype=tf.float32, **others)

  return make


def outside_compilation(computation: Any, *args: Any, **kwargs: Any) -> Any:
  """Calls the computation: on a CPU or GPU, everything is outside of a TPU's compiler."""
  return computation(*args, **kwargs)
