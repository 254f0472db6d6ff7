"""Keeps the processes of a run on several machines in step.

All workers must run the same loops, save at the same step and end together. With one process,
every function here returns its argument at no cost.
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from trainer import errors
from trainer.devices import device as device_lib

# A collective operation raises one of the first if a worker is gone. It may raise one of the second
# as well, which has other causes, too.
_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
_MAYBE_LOST = (tf.errors.CancelledError, tf.errors.InternalError)

# TensorFlow hears of a lost worker before or after the connections of `trainer.devices.link` do.
_NEWS_SECONDS = 5.0


class Workers:
  """The processes of a run.

  Args:
    device: the device of this process.
    model_dir: the folder with the checkpoints, for messages.

  All functions raise WorkerLostError if another worker is gone.
  """

  def __init__(self, device: device_lib.Device, model_dir: str) -> None:
    self.device = device
    self._model_dir = model_dir
    self._sum_of_all = tf.function(self._sum_over_replicas, autograph=False)

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

  def _sum(self, value):
    with self.watch():
      return self._sum_of_all(value).numpy()

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
  def watch(self) -> Iterator[None]:
    """Turns the errors of operations inside that failed because a worker is gone into one sentence.

    The other workers are told of an error with another cause, since they would wait for this one.

    Raises:
      WorkerLostError: another worker is gone.
    """
    link = self.device.link
    if link is None:
      yield
      return
    try:
      yield
    except Exception as error:
      causes = errors.causes(error)
      operation = next((each for each in causes if isinstance(each, _LOST + _MAYBE_LOST)), None)
      lost = link.lost(_NEWS_SECONDS) if operation else None
      if isinstance(error, errors.WorkerLostError) or (
        lost is None and not isinstance(operation, _LOST)
      ):
        link.leave(f"{type(error).__name__}: {error}".splitlines()[0][:500])
        raise
      raise errors.WorkerLostError(
        f"Worker {self.device.host} of {self.device.hosts} lost another one: "
        f"{lost or _first_line(operation)}. Start all workers "
        f"again with the same command: they go on from the newest checkpoint in {self._model_dir}."
      ) from error


def _first_line(error):
  lines = [line for line in error.message.splitlines() if line.strip() and not line.endswith(":")]
  return lines[0][:200] if lines else type(error).__name__
