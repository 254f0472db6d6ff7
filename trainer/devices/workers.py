"""Keeps the processes of a run on several machines in step.

All workers must run the same loops, save at the same step and end together. With one process,
every function here returns its argument at no cost.
"""

import contextlib
from collections.abc import Iterator

from trainer import errors
from trainer.devices import device as device_lib
from trainer.pjrt import hosts as hosts_lib

# jax hears of a lost worker before or after Octet's connections do. Its errors are RuntimeErrors,
# whatever their cause is.
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

  def _of_all(self, value):
    if self.device.link is None:
      return [value]
    with self.watch():
      return self.device.link.exchange(value)

  @contextlib.contextmanager
  def watch(self) -> Iterator[None]:
    """Turns errors of operations that failed because of a lost worker into one sentence.

    The other workers learn of an error with another cause, because they would wait for this one.

    Raises:
      WorkerLostError: another worker does not answer any more.
    """
    link = self.device.link
    try:
      yield
    except Exception as error:
      if link is None:
        raise
      signs = (hosts_lib.LostError, RuntimeError)
      sign = next((each for each in errors.causes(error) if isinstance(each, signs)), None)
      lost = link.lost(_NEWS_SECONDS) if sign else None
      if lost is None and isinstance(sign, hosts_lib.LostError):
        lost = str(sign)
      # A WorkerLostError of an inner `watch` has its sentence.
      if lost is None or type(error) is errors.WorkerLostError:
        link.leave(f"{type(error).__name__}: {error}".splitlines()[0][:500])
        raise
      raise errors.WorkerLostError(
        f"Worker {self.device.host} of {self.device.hosts} lost another worker: {lost}. Start all "
        f"workers again with the same command: they resume from the newest checkpoint in "
        f"{self._model_dir}."
      ) from error
