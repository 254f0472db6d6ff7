"""Writes a checkpoint in a thread of its own, while the training goes on."""

import concurrent.futures
import threading
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from trainer import errors


class BackgroundSave:
  """Runs one save at a time. Its error comes with the next save, or with `wait`.

  Args:
    place: the folder of the checkpoints, for messages: "out/digits (--model_dir)".
    on_failure: "raise" an OutputError, or "warn" and train on until the next save.
    what_is_saved: returns the state for messages: "the newest checkpoint is of step 5".
  """

  def __init__(self, place: str, on_failure: str, what_is_saved: Callable[[], str]) -> None:
    self._place = place
    self._on_failure = on_failure
    self._what_is_saved = what_is_saved
    self._thread = concurrent.futures.ThreadPoolExecutor(1, "checkpoint")
    # (step, future, id of the thread that called start) of the save in progress.
    self._pending: tuple[int, concurrent.futures.Future, int] | None = None
    # The error of the newest save, if it was only a warning.
    self._failure: errors.OctetError | None = None

  def start(self, step: int, save: Callable[[], None]) -> None:
    """Starts the save of a step, after the one before it.

    Raises:
      OutputError: the one before it failed.
    """
    self._finish()
    self._pending = step, self._thread.submit(save), threading.get_ident()

  @property
  def has_failed(self) -> bool:
    """Whether the newest save failed with only a warning."""
    return self._failure is not None

  def wait(self, is_last: bool = False) -> None:
    """Waits until no save is in progress, see CheckpointDirectory.wait."""
    pending = self._pending
    if pending is not None and pending[-1] != threading.get_ident():
      concurrent.futures.wait([pending[1]])
      return
    self._finish()
    if is_last and self._failure is not None:
      failure, self._failure = self._failure, None
      raise type(failure)(
        f"{errors.first_line(failure)}. This was the training's last checkpoint; "
        f"{self._what_is_saved()}."
      ) from failure

  def _finish(self):
    """Waits for the save in progress, and raises its error in any thread."""
    if self._pending is None:
      return
    (step, future, _), self._pending = self._pending, None
    self._failure = None
    failure: errors.OctetError
    try:
      future.result()
      return
    except errors.StorageError as error:
      failure = error
    except (tf.errors.OpError, OSError) as error:
      failure = errors.OutputError(
        f"Cannot write the checkpoint of step {step} to {self._place}: {errors.first_line(error)}"
      )
      failure.__cause__ = error
    if self._on_failure == "raise":
      raise failure
    self._failure = failure
    logging.warning(
      "%s. %s. Octet tries again at the next checkpoint.",
      errors.first_line(failure),
      self._what_is_saved().capitalize(),
    )
