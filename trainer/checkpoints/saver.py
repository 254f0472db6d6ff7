"""Saves the variables of a training, with the place in the data that belongs to them."""

from collections.abc import Callable
from typing import Any

from trainer.checkpoints import data_position, directory, model_values
from trainer.devices import workers as workers_lib
from trainer.tracing import variable_store


class Saver:
  """Writes checkpoints of a variable store.

  Args:
    store: the VariableStore; "global_step" is among its variables.
    values: the ModelValues of the store, which hear that the values are those of a file now.
    position: the DataPosition of the training.
    checkpoints: the CheckpointDirectory.
    workers: the Workers, of which the chief writes.
    check_lock: called before a file is written; raises if the folder is not this training's any
      more.
    stage: function of a sentence that makes a context manager, around what may take long.
  """

  def __init__(
    self,
    store: variable_store.VariableStore,
    values: model_values.ModelValues,
    position: data_position.DataPosition,
    checkpoints: directory.CheckpointDirectory,
    workers: workers_lib.Workers,
    check_lock: Callable[[], None],
    stage: Callable[[str], Any],
  ) -> None:
    self._store = store
    self._values = values
    self._position = position
    self._checkpoints = checkpoints
    self._workers = workers
    self._check_lock = check_lock
    self._stage = stage

  def save(self) -> str:
    """Writes the variables as they are, in the background on one machine; returns the path.

    Raises:
      OutputError: the checkpoint before this one could not be written.
      ModelDirBusyError: another training has the folder now.
    """
    values = self._store.synchronize_and_read()
    step = int(values["global_step"])
    path = self._checkpoints.path(step)
    if self._workers.device.is_chief:
      self._check_lock()
      with self._stage("save a checkpoint"):  # which waits for the one before
        self._checkpoints.save(step, {**values, **self._position.stored()})
    if self._workers.device.is_multi_worker:
      # No worker goes on before the file is there: after a restart all must find the same one.
      self.wait()
      self._workers.broadcast_from_chief(step)
      self._checkpoints.mark_whole(path)
    self._values.mark_saved(path, values)
    return path

  def wait(self, is_last: bool = False) -> None:
    """Returns when no checkpoint is being written any more.

    Args:
      is_last: whether the newest checkpoint is the last one of the training.

    Raises:
      OutputError: one could not be written.
    """
    with self._stage("save a checkpoint"):
      self._checkpoints.wait(is_last)

  @property
  def has_failed(self) -> bool:
    """Whether the newest checkpoint could not be written, on any machine, and that was a warning.

    All workers must ask.
    """
    return self._workers.total(self._checkpoints.has_failed) > 0

  def wait_and_warn(self) -> None:
    """As `wait`, but an error is a warning: the training has ended for another reason."""
    self._checkpoints.wait_and_warn()

  def latest(self) -> str | None:
    """The path of the newest checkpoint that is not damaged, or None."""
    return self._checkpoints.latest_whole()

  def latest_step(self) -> int | None:
    """The step of that checkpoint, or None."""
    latest = self.latest()
    return directory.step_of(latest) if latest else None
