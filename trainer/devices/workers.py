"""Keeps the processes of a run on several machines in step.

All workers must run the same loops, save at the same step and end together. With one process,
every function here returns its argument at no cost.
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from trainer import errors
from trainer.devices import device as device_lib
from trainer.devices import link as link_lib

# A collective operation raises an error of the first kind after the loss of a worker. Errors of
# the second kind may also have other causes.
_LOST = (
  link_lib.LostError,
  tf.errors.UnavailableError,
  tf.errors.AbortedError,
  tf.errors.DeadlineExceededError,
)
_MAYBE_LOST = (tf.errors.CancelledError, tf.errors.InternalError)

# TensorFlow and jax hear of a lost worker before or after the connections of `trainer.devices.link`
# do.
_NEWS_SECONDS = 5.0


class Workers:
  """The processes of a run.

  Args:
    device: the device of this process.
    model_dir: the folder with the checkpoints, for messages.

  All functions raise WorkerLostError after the loss of another worker.
  """

  def __init__(self, device: device_lib.Device, model_dir: str) -> None:
    self.device = device
    self._model_dir = model_dir

  def broadcast_from_chief(self, value: int) -> int:
    """Returns the chief's value on every worker. All workers must call it: it is also a barrier."""
    return int(self._of_all(int(value))[0])

  def total(self, value: int) -> int:
    """Returns the sum of the workers' values."""
    return sum(self._of_all(int(value)))

  def mean(self, value: float) -> float:
    """Returns the mean of the workers' values."""
    values = self._of_all(float(value))
    return sum(values) / len(values)

  def _of_all(self, value):
    link = self.device.link
    if link is None:
      return [value]
    with self.watch():
      return link.exchange(value)

  @contextlib.contextmanager
  def watch(self) -> Iterator[None]:
    """Turns errors of operations that failed because of a lost worker into one sentence.

    The other workers learn of an error with another cause, because they would wait for this one.

    Raises:
      WorkerLostError: another worker does not answer any more.
    """
    link = self.device.link
    if link is None:
      yield
      return
    try:
      yield
    except Exception as error:
      # jax's errors are RuntimeErrors, whatever their cause is.
      signs = _LOST + _MAYBE_LOST + (RuntimeError,) * self.device.runs_by_pjrt
      causes = errors.causes(error)
      operation = next((each for each in causes if isinstance(each, signs)), None)
      lost = link.lost(_NEWS_SECONDS) if operation else None
      is_said = isinstance(error, errors.WorkerLostError) and not isinstance(error, _LOST)
      if is_said or (lost is None and not isinstance(operation, _LOST)):
        link.leave(f"{type(error).__name__}: {error}".splitlines()[0][:500])
        raise
      raise errors.WorkerLostError(
        f"Worker {self.device.host} of {self.device.hosts} lost another worker: "
        f"{lost or _first_line(operation)}. Start all workers again with the same command: they "
        f"resume from the newest checkpoint in {self._model_dir}."
      ) from error


def _first_line(error):
  text = error.message if isinstance(error, tf.errors.OpError) else str(error)
  lines = [line for line in text.splitlines() if line.strip() and not line.endswith(":")]
  return lines[0][:200] if lines else type(error).__name__
