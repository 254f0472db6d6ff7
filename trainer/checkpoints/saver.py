"""Saves the variables of a training, with its place in the data."""

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
    values: the ModelValues of the store; it learns that a file now has the values.
    position: the DataPosition of the training.
    checkpoints: the CheckpointDirectory.
    workers: the Workers; the chief writes.
    check_lock: a function to call before a write; raises if another training has the folder.
    stage: function of a sentence that makes a context manager, around long operations.
  """

  store: variable_store.VariableStore
  values: model_values.ModelValues
  position: data_position.DataPosition
  checkpoints: directory.CheckpointDirectory
  workers: workers_lib.Workers
  check_lock: Callable[[], None]
  stage: Callable[[str], Any]

  def save(self) -> str:
    """Writes the current variables, in the background on one machine; returns the path.

    Raises:
      OutputError: the write of the checkpoint before this one failed.
      ModelDirBusyError: another training has the folder now.
    """
    values = self.store.synchronize_and_read()
    step = int(values["global_step"])
    path = self.checkpoints.path(step)
    if self.workers.device.is_chief:
      self.check_lock()
      with self.stage("save a checkpoint"):  # This waits for the one before.
        self.checkpoints.save(step, {**values, **self.position.stored()})
    if self.workers.device.is_multi_worker:
      # No worker continues before the file exists: after a restart all must find the same one.
      self.wait()
      self.workers.broadcast_from_chief(step)
      self.checkpoints.mark_valid(path)
    self.values.mark_saved(path, values)
    return path

  def wait(self, is_last: bool = False) -> None:
    """Returns when no write of a checkpoint is in progress.

    Args:
      is_last: whether the newest checkpoint is the last one of the training.

    Raises:
      OutputError: a write failed.
    """
    with self.stage("save a checkpoint"):
      self.checkpoints.wait(is_last)

  @property
  def has_failed(self) -> bool:
    """Whether the write of the newest checkpoint failed, on any machine, with only a warning.

    All workers must ask.
    """
    return self.workers.total(self.checkpoints.has_failed) > 0

  def wait_and_warn(self) -> None:
    """Waits until no write of a checkpoint is in progress, and logs its error.

    For a training that ends with another error: the save's error must not hide it.
    """
    try:
      self.checkpoints.wait()
    except (errors.OutputError, errors.StorageError) as error:
      logging.warning("%s", error)

  def latest_step(self) -> int | None:
    """The step of the newest undamaged checkpoint, or None."""
    latest = self.checkpoints.latest_valid()
    return file_names.step_of(latest) if latest else None
