"""tensorflow.python.tpu.tpu_function: how many shards there are."""

import types

import tensorflow as tf


def get_tpu_context() -> types.SimpleNamespace:
  """An object whose number_of_shards is that of the replicas, 1 outside of a model_fn."""
  return types.SimpleNamespace(number_of_shards=tf.distribute.get_strategy().num_replicas_in_sync)
