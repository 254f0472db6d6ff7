"""TPUClusterResolver. It only keeps a TPU's name: Octet drives the TPU of its own machine."""

from typing import Any

import tensorflow as tf


class TPUClusterResolver:
  """The name or address of a TPU. The constructor does not need the TPU itself.

  Args:
    tpu: name or address; None or "" for none.
    coordinator_name: a job of the cluster; None for a cluster without jobs.
    others: without effect: zone and project come from the TPU's own machine.
  """

  def __init__(
    self, tpu: Any = None, *args: Any, coordinator_name: str | None = None, **others: Any
  ):
    del args, others
    self._jobs = [coordinator_name] if coordinator_name else []
    if isinstance(tpu, list | tuple):
      tpu = tpu[0] if tpu else None
    self.tpu_name = tpu.decode() if isinstance(tpu, bytes) else tpu or ""

  def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
    return self.tpu_name

  def get_master(self) -> str:
    return self.tpu_name

  def cluster_spec(self) -> tf.train.ClusterSpec:
    return tf.train.ClusterSpec({job: [self.tpu_name] for job in self._jobs})

  def get_job_name(self) -> str:
    return "tpu_worker"

  def num_accelerators(self, *args: Any, **kwargs: Any) -> dict[str, int]:
    return {"TPU": 8}

  task_type = None
  task_id = None
