"""Saves the variables of a training, with the place in the data that belongs to them."""

import dataclasses
from collections.abc import Callable
from typing import Any

from absl import logging

from trainer import errors
from trainer.checkpoints import data_position, directory, file_names, model_values
from trainer.devices import workers as workers_lib
from trainer.tracing import variable_store


@dataclasses.dataclass(frozen=True)
class Saver:
  """Writes checkpoints of a variable store.

  Attributes:
    store: the VariableStore; "global_step" is among its variables.
    values: the ModelValues of the store, which hear that the values are those of a file now.
    position: the DataPosition of the training.
    checkpoints: the CheckpointDirectory.
    workers: the Workers, of which the chief writes.
    check_lock: called before a file is written; raises if the folder is not this training's any
      more.
    stage: function of a sentence that makes a context manager, around what may take long.
  """

  store: variable_store.VariableStore
  values: model_values.ModelValues
  position: data_position.DataPosition
  checkpoints: directory.CheckpointDirectory
  workers: workers_lib.Workers
  check_lock: Callable[[], None]
  stage: Callable[[str], Any]

  def save(self) -> str:
    """Writes the variables as they are, in the background on one machine; returns the path.

    Raises:
      OutputError: the checkpoint before this one could not be written.
      ModelDirBusyError: another training has the folder now.
    """
    values = self.store.synchronize_and_read()
    step = int(values["global_step"])
    path = self.checkpoints.path(step)
    if self.workers.device.is_chief:
      self.check_lock()
      with self.stage("save a checkpoint"):  # which waits for the one before
        self.checkpoints.save(step, {**values, **self.position.stored()})
    if self.workers.device.is_multi_worker:
      # No worker goes on before the file is there: after a restart all must find the same one.
      self.wait()
      self.workers.broadcast_from_chief(step)
      self.checkpoints.mark_valid(path)
    self.values.mark_saved(path, values)
    return path

  def wait(self, is_last: bool = False) -> None:
    """Returns when no checkpoint is being written any more.

    Args:
      is_last: whether the newest checkpoint is the last one of the training.

    Raises:
      OutputError: one could not be written.
    """
    with self.stage("save a checkpoint"):
      self.checkpoints.wait(is_last)

  @property
  def has_failed(self) -> bool:
    """Whether the newest checkpoint could not be written, on any machine, and that was a warning.

    All workers must ask.
    """
    return self.workers.total(self.checkpoints.has_failed) > 0

  def wait_and_warn(self) -> None:
    """Waits until no checkpoint is being written, and logs its error.

    For a training that ends with another error, which must not be hidden.
    """
    try:
      self.checkpoints.wait()
    except (errors.OutputError, errors.StorageError) as error:
      logging.warning("%s", error)

  def latest_step(self) -> int | None:
    """The step of the newest checkpoint that is not damaged, or None."""
    latest = self.checkpoints.latest_valid()
    return file_names.step_of(latest) if latest else None
