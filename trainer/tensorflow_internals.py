"""What TensorFlow keeps to itself and Octet relies on. The one file that names it."""

import tensorflow as tf

from trainer import private_names

# How a strategy combines the gradients of a tf.compat.v1 optimizer.
BATCH_REDUCE = private_names.member(
  "tensorflow.python.distribute.distribute_lib.StrategyExtendedV2.batch_reduce_to"
)


def take_means(strategy: tf.distribute.Strategy) -> None:
  """Tells tf.compat.v1 optimizers under a strategy that a loss is the mean of a replica's batch.

  They take the mean of the replicas' gradients then, not the sum, as they did for Estimators.
  """
  if strategy.num_replicas_in_sync > 1:  # with one there is no difference, nor is it ours to change
    strategy._scale_loss_for_estimator = True


def distributed_apply(optimizer, strategy, grads_and_vars, global_step, name):
  """apply_gradients of a tf.compat.v1 optimizer, for all replicas in a merge_call."""
  return optimizer._distributed_apply(strategy, grads_and_vars, global_step, name)


def swap_collections(graph: tf.Graph, collections):
  """Gives a graph other collections, a mapping of key → list; returns those that it had."""
  before, graph._collections = graph._collections, collections
  return before
