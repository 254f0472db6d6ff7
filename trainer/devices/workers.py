"""What the processes of a run on several machines have to agree on: they must all run the same
loops, save at the same step and end together.

On one machine there is nothing to agree on, and nothing here costs anything.
"""

import contextlib

import tensorflow as tf

from trainer import errors

# What a collective operation raises when a worker is gone, or when it was cancelled because of
# that.
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
    device: a device.Device.
  """

  def __init__(self, device):
    self.device = device
    self._sum = tf.function(self._sum_over_replicas, autograph=False)

  def agree(self, value):
    """The chief's value (int) on every worker, which all must ask for. It is also a barrier."""
    if not self.device.is_multi_worker:
      return value
    return int(self._sum(tf.constant(value if self.device.is_chief else 0, tf.int64)))

  def total(self, value):
    """The sum of the workers' values (int)."""
    return int(self._sum(tf.constant(value, tf.int64))) if self.device.is_multi_worker else value

  def mean(self, value):
    """The mean of the workers' values (float)."""
    if not self.device.is_multi_worker:
      return value
    return float(self._sum(tf.constant(value, tf.float64))) / self.device.hosts

  def _sum_over_replicas(self, value):
    def on_replica(value):
      context = tf.distribute.get_replica_context()
      # One voice a worker.
      first = context.replica_id_in_sync_group % self.device.local_replicas == 0
      return context.all_reduce(
        tf.distribute.ReduceOp.SUM, tf.where(first, value, tf.zeros_like(value))
      )

    strategy = self.device.strategy
    return strategy.experimental_local_results(strategy.run(on_replica, (value,)))[0]

  @contextlib.contextmanager
  def watched(self, checkpoints):
    """Says in one sentence that a worker is gone, where the operations inside fail for that reason.

    Args:
      checkpoints: the folder from which all can go on.

    Raises:
      WorkerLostError
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
