"""A TPUStrategy over cores that are not there: it traces a program as for a TPU, and cannot run it.

with fake_tpu.strategy(8).scope(): ...  # one host with eight cores
with fake_tpu.strategy(32).scope(): ...  # four hosts with eight cores each
"""

import collections
import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer.internals import tensorflow_internals

CORES_OF_A_HOST = 8

# What a TPU's hosts are called by the TensorFlow that drives them.
_JOB = "worker"

_Device = collections.namedtuple("_Device", "name device_type")


class _Resolver:
  """Says which hosts and cores there are; a TPUStrategy asks for no more than that."""

  tpu_hardware_feature = None
  task_type = None
  task_id = None

  def __init__(self, cores: int) -> None:
    self._cores = cores

  def get_tpu_system_metadata(self) -> Any:
    hosts = max(1, self._cores // CORES_OF_A_HOST)
    on_each = self._cores // hosts
    devices = []
    for task in range(hosts):
      host = f"/job:{_JOB}/replica:0/task:{task}/device:"
      devices += [_Device(f"{host}TPU:{index}", "TPU") for index in range(on_each)]
      devices.append(_Device(f"{host}CPU:0", "CPU"))
    return tensorflow_internals.TPUSystemMetadata(
      num_cores=self._cores,
      num_hosts=hosts,
      num_of_cores_per_host=on_each,
      topology=None,
      devices=devices,
    )

  def cluster_spec(self) -> tf.train.ClusterSpec:
    return tf.train.ClusterSpec({})

  def master(self) -> str:
    return ""

  def num_accelerators(self, *arguments: Any, **keywords: Any) -> dict[str, int]:
    del arguments, keywords
    return {"TPU": self._cores}


class _Strategy(tf.distribute.TPUStrategy):
  """Places the variables of all cores on the machine that traces, since there is no other."""

  @contextlib.contextmanager
  def scope(self) -> Iterator[None]:
    # The order is important. A creator that is entered later is called earlier: the strategy's own
    # computes the initial value on the first core, and then calls the next one for each core.
    with (
      tf.variable_creator_scope(_created_here),
      super().scope(),
      tf.variable_creator_scope(_with_initial_value_here),
    ):
      yield


_HERE = "/job:localhost/replica:0/task:0/device:CPU:0"


def _created_here(next_creator: Any, **kwargs: Any) -> tf.Variable:
  with tf.device(_HERE):
    return next_creator(**kwargs)


def _with_initial_value_here(next_creator: Any, **kwargs: Any) -> tf.Variable:
  value = kwargs["initial_value"]
  if not callable(value):
    return next_creator(**kwargs)

  def here():
    with tf.device(_HERE):
      return value()

  return next_creator(**dict(kwargs, initial_value=here))


def strategy(cores: int) -> tf.distribute.TPUStrategy:
  """Returns a tf.distribute.TPUStrategy for tracing.

  Args:
    cores: the number of cores; above eight, of whole hosts with eight each.
  """
  return _Strategy(_Resolver(cores))
