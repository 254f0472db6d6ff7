"""One replica's step among N, traced on a machine that has none of them.

A strategy that has one device and says that N replicas are in sync: what a model_fn does with them
(the mean of the gradients, synchronized batch norm, the replica's number in a random seed) becomes
XLA's own operation over N replicas. Its functions are for compiling, not for running.
"""

import tensorflow as tf

from trainer.internals import tensorflow_internals


class OneOfMany(tf.distribute.OneDeviceStrategy):
  """One replica of `replicas`, on the CPU."""

  def __init__(self, replicas):
    tf.distribute.Strategy.__init__(self, _Extended(self, replicas))


class _Extended(tensorflow_internals.OneDeviceExtended):
  def __init__(self, strategy, replicas):
    super().__init__(strategy, "/cpu:0")
    self.replicas = replicas

  @property
  def _num_replicas_in_sync(self):
    return self.replicas

  def _call_for_each_replica(self, fn, args, kwargs):
    with (
      tf.device(self._device),
      _Context(self._container_strategy(), tensorflow_internals.xla_replica_id()),
    ):
      return fn(*args, **kwargs)

  def _reduce_to(self, reduce_op, value, destinations, options):
    return all_reduce(reduce_op, value, self.replicas)

  def _batch_reduce_to(self, reduce_op, value_destination_pairs, options):
    return [all_reduce(reduce_op, value, self.replicas) for value, _ in value_destination_pairs]


class _Context(tf.distribute.ReplicaContext):
  def all_reduce(self, reduce_op, value, options=None):
    return tf.nest.map_structure(
      lambda tensor: all_reduce(reduce_op, tensor, self.num_replicas_in_sync), value
    )


def all_reduce(reduce_op, value, replicas):
  """The sum or the mean over the replicas; its gradient is the same of the gradient, as that of
  ReplicaContext.all_reduce.
  """
  is_mean = (
    tf.distribute.ReduceOp(getattr(reduce_op, "value", reduce_op)) == tf.distribute.ReduceOp.MEAN
  )

  def reduced(tensor):
    total = tensorflow_internals.xla_all_reduce(
      input=tensor, group_assignment=[list(range(replicas))], reduce_op="Add", mode="CrossReplica"
    )
    return total / tf.cast(replicas, total.dtype) if is_mean else total

  @tf.custom_gradient  # XlaAllReduce has none
  def with_gradient(tensor):
    return reduced(tensor), reduced

  return with_gradient(tf.convert_to_tensor(value))
