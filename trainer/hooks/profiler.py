"""A hook that profiles some steps: a table of where their time went, and files for TensorBoard.

Example:
    python -m trainer.main ... --profile

    run.train_hooks = [@Profiler()]      # the same in gin
    Profiler.first = 100
    Profiler.last = 120
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.config import gin_names
from trainer.hooks.estimator_protocol import Estimator
from trainer.reporting import step_times
from trainer.settings import setting_types


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(eq=False)
class Profiler:
  """Profiles host and device from one step to another, and logs a table of the times.

  With iterations_per_loop, the profile begins and ends with the loops that contain the steps.

  Args:
    first: int > 0; the profile begins after this step.
    last: int > 0; the profile ends after this step.
    directory: the folder for the files; None for model_dir, where TensorBoard finds them.

  Raises:
    SettingError: last is not greater than first.
  """

  reads_variables = False

  first: setting_types.Count = 10
  last: setting_types.Count = 20
  directory: str | None = None

  def __post_init__(self) -> None:
    if self.last <= self.first:
      raise errors.SettingError(
        f"Profiler.last must be greater than Profiler.first; got {self.last} and {self.first}."
      )
    self._runs = self._done = False
    self._begin_step: int | None = None

  def next_step(self, step: int) -> int | None:
    """Returns the next step that begins or ends the profile."""
    return next((at for at in (self.first, self.last) if at > step), None)

  def __call__(self, step: int, metrics: Mapping[str, float], estimator: Estimator) -> None:
    """Begins or ends the profile if this is the step for it."""
    if self._runs and step >= self.last:
      self._stop(step, estimator)
    elif not self._done and self.first <= step < self.last:
      self.directory = self.directory or estimator.model_dir
      self._done = True
      try:
        tf.profiler.experimental.start(self.directory)
      # TensorFlow takes one profile per process. Another thread's training, or the program itself,
      # may be taking one.
      except tf.errors.AlreadyExistsError:
        logging.warning("No profile at step %d: this process is taking another one.", step)
        return
      self._runs = True
      self._begin_step = step

  def end(self, step: int, estimator: Estimator) -> None:
    """Ends the profile if the training ends before `last`."""
    if self._runs:
      self._stop(step, estimator)

  def _stop(self, step, estimator):
    tf.profiler.experimental.stop()
    self._runs = False
    times = step_times.read(self.directory)
    if times is not None:
      if estimator.device.kind != "cpu":  # On a GPU or TPU, the host only launches the operations.
        times = dataclasses.replace(times, operations={})
      logging.info("%s", step_times.table(times, self._begin_step, step))
    logging.info(
      "Profile of the steps up to %d: tensorboard --logdir %s (its profile page needs "
      "tensorboard-plugin-profile).",
      step,
      self.directory,
    )
