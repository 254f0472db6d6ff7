"""A real TPUStrategy over made-up cores: it traces a step as for a TPU, and cannot run it."""

import collections

import tensorflow as tf
from tensorflow.python.tpu import tpu_system_metadata

_Device = collections.namedtuple("_Device", "name device_type")


class _Resolver:
  """Says that there is one host with so many cores, and is asked for no more than that."""

  tpu_hardware_feature = None
  task_type = None
  task_id = None

  def __init__(self, cores):
    self._cores = cores

  def get_tpu_system_metadata(self):
    host = "/job:localhost/replica:0/task:0/device:"
    cores = [_Device(f"{host}TPU:{index}", "TPU") for index in range(self._cores)]
    return tpu_system_metadata.TPUSystemMetadata(
      num_cores=self._cores,
      num_hosts=1,
      num_of_cores_per_host=self._cores,
      topology=None,
      devices=[*cores, _Device(f"{host}CPU:0", "CPU")],
    )

  def cluster_spec(self):
    return tf.train.ClusterSpec({})

  def master(self):
    return ""

  def num_accelerators(self, *arguments, **keywords):
    return {"TPU": self._cores}


def strategy(cores=8):
  """A tf.distribute.TPUStrategy for tracing."""
  return tf.distribute.TPUStrategy(_Resolver(cores))


def operations(concrete_function):
  """[NodeDef] of a traced function and of all functions in it."""
  graph = concrete_function.graph.as_graph_def()
  return [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
