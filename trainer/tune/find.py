"""Runs the searches for the experiment that gin describes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from trainer import errors, experiment
from trainer.cli import formatting
from trainer.preflight import bindings
from trainer.settings.kinds import Kind
from trainer.tune import batch_sizes, learning_rates, memory

# The number of progress lines of a sweep of learning rates.
_LINES = 10


@dataclasses.dataclass(frozen=True)
class Asked:
  """The experiment of the loaded gin configuration.

  Attributes:
    run: the experiment.
    settings: "device", "precision" and "seed" of `experiment.Flags`.
    estimator: its Estimator; the Estimator writes nothing.
  """

  run: experiment.Experiment
  settings: Mapping[str, Any]
  estimator: Any

  @classmethod
  def by_gin(cls, settings: Mapping[str, Any]) -> "Asked":
    """Returns the experiment; SettingError if it has no model_fn or no training."""
    run = bindings.asked_by_gin()
    if run.train_input_fn is None:
      raise errors.SettingError(
        "There is nothing to train with: bind run.train_input_fn in a gin file."
      )
    flags = experiment.Flags(mode="train", dry_run=True, **settings)
    return cls(run, settings, experiment.make_estimator(run, flags))

  @property
  def about(self) -> str:
    """The device, the precision and the seed."""
    config = self.estimator.config
    return f"On {self.estimator.device}, in {config.precision}, with seed {config.tf_random_seed}."

  def learning_rate(self, low: float, high: float, steps: int) -> learning_rates.Sweep:
    """Sweeps the learning rate, see `learning_rates.sweep`."""

    def tell(step, rate, loss):
      if step % max(1, steps // _LINES) == 0:
        print(f"step {step} of {steps}: learning rate {rate:.2g}, loss {loss:.4g}", flush=True)

    input_fn = self.run.train_input_fn
    assert input_fn is not None
    return learning_rates.sweep(self.estimator, input_fn, low, high, steps, tell=tell)

  def batch_size(
    self, most: int, timeout_seconds: float, given: Mapping[str, Any]
  ) -> list[batch_sizes.Measured]:
    """Searches the largest batch size.

    Args:
      most: the largest size to try.
      timeout_seconds: the longest that one size may take.
      given: "gin_files", "bindings" and "modules" of the experiment.
    """
    request, limit = {**given, "flags": dict(self.settings)}, memory.limit_bytes()
    first = self.estimator.batch_sizes()[Kind.TRAIN].global_size

    def measure(size):
      measured = batch_sizes.measure(size, request, limit, timeout_seconds)
      speed = f"{formatting.three_digits(measured.examples_per_second)} examples/s"
      print(f"batch size {size:,}: {speed if measured.fits else measured.status}", flush=True)
      return measured

    return batch_sizes.search(measure, first, self.estimator.device.replicas, max(most, first))
