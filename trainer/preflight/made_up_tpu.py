"""A TPUStrategy over cores that are not there: it traces a program as for a TPU, and cannot run it.

with made_up_tpu.strategy(8).scope(): ...
"""

import collections
from typing import Any

import tensorflow as tf

from trainer.internals import tensorflow_internals

_Device = collections.namedtuple("_Device", "name device_type")


class _Resolver:
  """Says that there is one host with so many cores; a TPUStrategy asks for no more than that."""

  tpu_hardware_feature = None
  task_type = None
  task_id = None

  def __init__(self, cores: int) -> None:
    self._cores = cores

  def get_tpu_system_metadata(self) -> Any:
    host = "/job:localhost/replica:0/task:0/device:"
    cores = [_Device(f"{host}TPU:{index}", "TPU") for index in range(self._cores)]
    return tensorflow_internals.TPUSystemMetadata(
      num_cores=self._cores,
      num_hosts=1,
      num_of_cores_per_host=self._cores,
      topology=None,
      devices=[*cores, _Device(f"{host}CPU:0", "CPU")],
    )

  def cluster_spec(self) -> tf.train.ClusterSpec:
    return tf.train.ClusterSpec({})

  def master(self) -> str:
    return ""

  def num_accelerators(self, *arguments: Any, **keywords: Any) -> dict[str, int]:
    del arguments, keywords
    return {"TPU": self._cores}


def strategy(cores: int) -> tf.distribute.TPUStrategy:
  """Returns a tf.distribute.TPUStrategy for tracing.

  Args:
    cores: the number of cores.
  """
  return tf.distribute.TPUStrategy(_Resolver(cores))
