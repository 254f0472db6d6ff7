"""Random numbers that come from the run's seed, and from nothing that happened before.

A number that the process draws on the way (Python's `random`, TensorFlow's eager generator) depends on what was traced first and on how often the
run was restarted. Here every seed is a function of the run's seed and of a name, so that one replica and eight, a first run and a resumed one agree.
"""

import contextlib
import hashlib

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context


def seed_for(seed, name):
  """An int in [0, 2**31) for this name in a run with this seed."""
  digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest()
  return int.from_bytes(digest, "little") & 0x7FFFFFFF


@contextlib.contextmanager
def eager_seed(seed):
  """TensorFlow's eager random operations start from `seed` inside, and go on as if nothing had happened after."""
  state = context.context()
  saved = {name: getattr(state, name) for name in ("_seed", "_rng") if hasattr(state, name)}  # it has no _rng before the first seed
  tf.random.set_seed(seed)
  try:
    yield
  finally:
    del state._rng
    vars(state).update(saved)


def reseed_operations(graph, seed):
  """Gives the stateful random operations of a graph seeds of their own: those they have count the operations before them."""
  for index, operation in enumerate(graph.get_operations()):
    if "seed" in operation.node_def.attr and "seed2" in operation.node_def.attr:
      operation._set_attr("seed", attr_value_pb2.AttrValue(i=seed))
      operation._set_attr("seed2", attr_value_pb2.AttrValue(i=index))
