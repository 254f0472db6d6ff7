"""Keeps the processes of a run on several machines in step.

All workers must run the same loops, save at the same step and end together. With one process,
every function here returns its argument at no cost.
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from trainer import errors
from trainer.devices import device as device_lib

# A collective operation raises one of these if a worker is gone.
_LOST = (
  tf.errors.UnavailableError,
  tf.errors.AbortedError,
  tf.errors.CancelledError,
  tf.errors.DeadlineExceededError,
  tf.errors.InternalError,
)


class Workers:
  """The processes of a run.

  Args:
    device: the device of this process.
  """

  def __init__(self, device: device_lib.Device) -> None:
    self.device = device
    self._sum = tf.function(self._sum_over_replicas, autograph=False)

  def broadcast_from_chief(self, value: int) -> int:
    """Returns the chief's value on every worker. All workers must call it: it is also a barrier."""
    if not self.device.is_multi_worker:
      return value
    return int(self._sum(tf.constant(value if self.device.is_chief else 0, tf.int64)))

  def total(self, value: int) -> int:
    """Returns the sum of the workers' values."""
    return int(self._sum(tf.constant(value, tf.int64))) if self.device.is_multi_worker else value

  def mean(self, value: float) -> float:
    """Returns the mean of the workers' values."""
    if not self.device.is_multi_worker:
      return value
    return float(self._sum(tf.constant(value, tf.float64))) / self.device.hosts

  def _sum_over_replicas(self, value):
    def on_replica(value):
      context = tf.distribute.get_replica_context()
      # Only the first replica of each worker adds its value.
      is_first = context.replica_id_in_sync_group % self.device.local_replicas == 0
      return context.all_reduce(
        tf.distribute.ReduceOp.SUM, tf.where(is_first, value, tf.zeros_like(value))
      )

    strategy = self.device.strategy
    return strategy.experimental_local_results(strategy.run(on_replica, (value,)))[0]

  @contextlib.contextmanager
  def watch(self, checkpoints: str) -> Iterator[None]:
    """Turns the errors of operations inside that failed because a worker is gone into one sentence.

    Args:
      checkpoints: the folder with the checkpoints from which all workers can go on.

    Raises:
      WorkerLostError: another worker is gone.
    """
    try:
      yield
    except _LOST as error:
      if not self.device.is_multi_worker:
        raise
      raise errors.WorkerLostError(
        f"Worker {self.device.host} of {self.device.hosts} lost another one of TF_CONFIG "
        f"({str(error).splitlines()[0][:200]}). Start all workers "
        f"again with the same command: they go on from the newest checkpoint in {checkpoints}."
      ) from error
