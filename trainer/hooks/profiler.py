"""A profile of some steps: a table of where their time went, and files for TensorBoard's profile
page.

Example:
    python -m trainer.main ... --profile

    run.train_hooks = [@Profiler()]      # which is what --profile does
    Profiler.first = 100
    Profiler.last = 120
"""

import dataclasses

import tensorflow as tf
from absl import logging

from trainer import errors, run_config
from trainer.config import gin_names
from trainer.reporting import step_times


@gin_names.configurable(module="trainer")
class Profiler:
  """Profiles the loops from one step to another, of host and device.

  Where iterations_per_loop is set, it begins and ends with the loops that these steps are in. The
  table is logged.

  Args:
    first, last: int > 0: the steps, after which it begins and ends.
    directory: where it is written; default: model_dir, where TensorBoard finds it.

  Raises:
    SettingError: last is not greater than first.
  """

  def __init__(self, first=10, last=20, directory=None):
    run_config.require_positive_int(first, "Profiler.first")
    run_config.require_positive_int(last, "Profiler.last")
    if last <= first:
      raise errors.SettingError(
        f"Profiler.last must be greater than Profiler.first; got {last} and {first}."
      )
    self._first = first
    self._last = last
    self._directory = directory
    self._runs = self._done = False
    self._begun = None  # the step

  def next_step(self, step):
    """See trainer.hooks."""
    return next((at for at in (self._first, self._last) if at > step), None)

  def __call__(self, step, metrics, estimator):
    if self._runs and step >= self._last:
      self._stop(step, estimator)
    elif not self._done and self._first <= step < self._last:
      self._directory = self._directory or estimator.model_dir
      self._done = True
      try:
        tf.profiler.experimental.start(self._directory)
      except tf.errors.AlreadyExistsError:  # of a training in another thread, or the program's own
        logging.warning("No profile is taken at step %d: this process is taking another one.", step)
        return
      self._runs = True
      self._begun = step

  def end(self, step, estimator):
    if self._runs:
      self._stop(step, estimator)

  def _stop(self, step, estimator):
    tf.profiler.experimental.stop()
    self._runs = False
    times = step_times.read(self._directory)
    if times is not None:
      if estimator.device.kind != "cpu":  # whose operations the host hands over, no more
        times = dataclasses.replace(times, operations={})
      logging.info("%s", step_times.table(times, self._begun, step))
    logging.info(
      "Profile of the steps up to %d: tensorboard --logdir %s (its profile page needs "
      "tensorboard-plugin-profile).",
      step,
      self._directory,
    )
