"""Runs the searches for the experiment that gin describes."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from trainer import errors, experiment
from trainer.cli import formatting
from trainer.preflight import bindings
from trainer.settings.kinds import Kind
from trainer.tune import batch_sizes, learning_rates, memory, suggestion

# The number of progress lines of a sweep of learning rates.
_LINES = 10


@dataclasses.dataclass(frozen=True)
class Asked:
  """The work that the command line asks for, with gin loaded.

  Attributes:
    device: see run_config.RunConfig, also for the next two.
    precision: the same.
    seed: the run's seed, or None for the default.
    gin_files: of the experiment.
    gin_bindings: the same.
    gin_modules: modules that the files may import and name.
    tell: called with lines about the progress.
  """

  device: str
  precision: str
  seed: int | None
  gin_files: tuple[str, ...]
  gin_bindings: tuple[str, ...]
  gin_modules: tuple[str, ...]
  tell: Callable[[str], None]

  @functools.cached_property
  def run(self) -> experiment.Experiment:
    """The experiment.

    Raises:
      SettingError: it has no model_fn.
    """
    return bindings.asked_by_gin()

  @property
  def train_input_fn(self) -> Callable:
    """The input_fn of the training.

    Raises:
      SettingError: there is none.
    """
    if self.run.train_input_fn is None:
      raise errors.SettingError(
        "There is nothing to train with: bind run.train_input_fn in a gin file."
      )
    return self.run.train_input_fn

  @functools.cached_property
  def estimator(self) -> Any:
    """An Estimator of the experiment that writes nothing."""
    return experiment.make_estimator(
      self.run, experiment.Flags(mode="train", dry_run=True, **self._flags)
    )

  @property
  def about(self) -> str:
    """The device, the precision and the seed."""
    config = self.estimator.config
    return f"On {self.estimator.device}, in {config.precision}, with seed {config.tf_random_seed}."

  @property
  def _flags(self):
    return {"device": self.device, "precision": self.precision, "seed": self.seed}

  def learning_rate(self, low: float, high: float, steps: int) -> dict[str, Any]:
    """Sweeps the learning rate; returns fields of a report.Report."""

    def tell(step, rate, loss):
      if step % max(1, steps // _LINES) == 0:
        self.tell(f"step {step} of {steps}: learning rate {rate:.2g}, loss {loss:.4g}")

    found = learning_rates.sweep(self.estimator, self.train_input_fn, low, high, steps, tell=tell)
    names: list[str] = []
    if found.suggestion is not None:
      names = suggestion.learning_rate(found.suggestion, self.run.params)
    return {"sweep": found, "rate_bindings": tuple(names)}

  def batch_size(self, most: int, seconds: float, timeout_seconds: float) -> dict[str, Any]:
    """Searches the largest batch size; returns fields of a report.Report."""
    replicas = self.estimator.device.replicas
    first = self.estimator.batch_sizes()[Kind.TRAIN].global_size
    limit = memory.limit_bytes()
    request = {
      "gin_files": self.gin_files,
      "bindings": self.gin_bindings,
      "modules": self.gin_modules,
      "flags": self._flags,
      "seconds": seconds,
    }

    def measure(size):
      measured = batch_sizes.measure(size, request, limit, timeout_seconds)
      speed = f"{formatting.three_digits(measured.examples_per_second)} examples/s"
      self.tell(f"batch size {size:,}: {speed if measured.fits else measured.status}")
      return measured

    found = batch_sizes.search(measure, first, replicas, max(most, first), limit)
    sizes = {found.largest.batch_size: "the largest that fits"}
    sizes[found.fastest.batch_size] = "the fastest"
    names = [
      f"{suggestion.batch_size(size, self.run, replicas)}  # {what}" for size, what in sizes.items()
    ]
    return {"search": found, "size_bindings": tuple(names)}
