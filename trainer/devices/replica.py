"""A strategy that traces the step of one of N replicas, on a machine without such devices.

It has one device and claims that N replicas are in sync. Operations across replicas (the mean of
the gradients, synchronized batch norm, the replica's number in a random seed) become XLA's own
operations over N replicas. XLA can compile its functions; TensorFlow cannot run them.
"""

import collections
import functools
from typing import Any

import tensorflow as tf

from trainer.internals import tensorflow_internals

# Octet packs tensors up to this size for a reduction over the devices of one CPU. A reduction over
# eight devices takes about 0.1 ms at any size (AMD EPYC, two cores), as long as copying a few
# hundred kilobytes.
_PACKED_BYTES = 256 * 1024

_COMBINED = {
  tf.VariableAggregation.MEAN: tf.distribute.ReduceOp.MEAN,
  tf.VariableAggregation.SUM: tf.distribute.ReduceOp.SUM,
}


class OneOfMany(tf.distribute.OneDeviceStrategy):
  """One replica of `replicas`, on the CPU.

  Args:
    replicas: the number of replicas in sync.
    packs: whether small tensors of one reduction become one tensor. This pays for devices of a CPU,
      which wait for each other at each tensor. A TPU's compiler packs by itself.
  """

  def __init__(self, replicas: int, packs: bool = False) -> None:
    # Not OneDeviceStrategy's __init__, which would make its own extended object.
    tf.distribute.Strategy.__init__(self, _Extended(self, replicas, packs))


class _Extended(tensorflow_internals.OneDeviceExtended):
  def __init__(self, strategy, replicas, packs):
    super().__init__(strategy, "/cpu:0")
    self.replicas = replicas
    self.packs = packs

  @property
  def _num_replicas_in_sync(self):
    return self.replicas

  def _call_for_each_replica(self, fn, args, kwargs):
    with (
      tf.device(self._device),
      _Context(self._container_strategy(), tensorflow_internals.xla_replica_id()),
    ):
      return fn(*args, **kwargs)

  def _create_variable(self, next_creator, **kwargs):
    variable = super()._create_variable(next_creator, **kwargs)
    is_own = variable.synchronization == tf.VariableSynchronization.ON_READ
    if not is_own and variable.aggregation in _COMBINED:
      # A mirrored variable combines the replicas' assignments; a variable of one device does not.
      for name in ("assign", "assign_add", "assign_sub"):
        assign = functools.partial(_assign_combined, variable, getattr(variable, name))
        setattr(variable, name, assign)
    return variable

  def _reduce_to(self, reduce_op, value, destinations, options):
    return all_reduce(reduce_op, value, self.replicas)

  def _batch_reduce_to(self, reduce_op, value_destination_pairs, options):
    return [all_reduce(reduce_op, value, self.replicas) for value, _ in value_destination_pairs]


class _Context(tf.distribute.ReplicaContext):
  def all_reduce(self, reduce_op, value, options=None):
    reduced = functools.partial(all_reduce, reduce_op, replicas=self.num_replicas_in_sync)
    if not self.strategy.extended.packs:
      return tf.nest.map_structure(reduced, value)
    tensors = [tf.convert_to_tensor(each) for each in tf.nest.flatten(value)]
    return tf.nest.pack_sequence_as(value, _reduce_packed(reduced, tensors))


def _reduce_packed(reduced, tensors):
  """Reduces tensors, the small ones of a dtype in one piece.

  Args:
    reduced: function of a tensor that reduces it.
    tensors: the tensors.
  """
  results = [None] * len(tensors)
  packs = collections.defaultdict(list)  # dtype → the places of small tensors
  for place, tensor in enumerate(tensors):
    size = tensor.shape.num_elements()
    if size is not None and size * tensor.dtype.size <= _PACKED_BYTES:
      packs[tensor.dtype].append(place)
    else:
      results[place] = reduced(tensor)
  for places in packs.values():
    pack = [tensors[place] for place in places]
    whole = reduced(tf.concat([tf.reshape(tensor, [-1]) for tensor in pack], 0))
    parts = tf.split(whole, [tensor.shape.num_elements() for tensor in pack])
    for place, part in zip(places, parts, strict=True):
      results[place] = tf.reshape(part, tensors[place].shape)
  return results


def _assign_combined(variable, assign, value, *args, **kwargs):
  """Assigns the mean or the sum over the replicas, if a replica calls it."""
  if isinstance(tf.distribute.get_replica_context(), _Context):
    value = tf.convert_to_tensor(value, variable.dtype.base_dtype)
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    value = all_reduce(_COMBINED[variable.aggregation], value, replicas)
  return assign(value, *args, **kwargs)


def all_reduce(reduce_op: Any, value: tf.Tensor, replicas: int) -> tf.Tensor:
  """Reduces a tensor over the replicas.

  Its gradient is the same reduction of the gradient, as for ReplicaContext.all_reduce.

  Args:
    reduce_op: tf.distribute.ReduceOp.SUM or MEAN, or its name.
    value: tensor of any shape.
    replicas: number of replicas.
  """
  is_mean = (
    tf.distribute.ReduceOp(getattr(reduce_op, "value", reduce_op)) == tf.distribute.ReduceOp.MEAN
  )

  def reduced(tensor):
    total = tensorflow_internals.xla_all_reduce(
      input=tensor, group_assignment=[list(range(replicas))], reduce_op="Add", mode="CrossReplica"
    )
    return total / tf.cast(replicas, total.dtype) if is_mean else total

  @tf.custom_gradient  # XlaAllReduce itself has no gradient
  def with_gradient(tensor):
    return reduced(tensor), reduced

  return with_gradient(tf.convert_to_tensor(value))
