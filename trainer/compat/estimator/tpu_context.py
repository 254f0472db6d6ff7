"""tensorflow.python.tpu.tpu_function: the number of shards."""

import types

import tensorflow as tf


def get_tpu_context() -> types.SimpleNamespace:
  """Returns an object with number_of_shards, the number of replicas; 1 outside of a model_fn."""
  return types.SimpleNamespace(number_of_shards=tf.distribute.get_strategy().num_replicas_in_sync)
