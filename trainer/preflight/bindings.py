"""Reads a configuration's bindings of `run`, without running it."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import gin

from trainer import errors, experiment, run_config, spec
from trainer.settings import batch_sizes
from trainer.settings.kinds import Kind


@dataclasses.dataclass(frozen=True)
class Experiment:
  """The experiment to compile.

  Attributes:
    model_fn: the user's function.
    input_fns: kind → input_fn, of the kinds with one.
    params: the params of model_fn and input_fns.
    sizes: the batch sizes. Each topology divides a global size by its number of replicas.
    config: the RunConfig.
  """

  model_fn: Callable
  input_fns: dict[Kind, Callable]
  params: dict[str, Any]
  sizes: batch_sizes.BatchSizes
  config: run_config.RunConfig

  def kinds(self) -> list[Kind]:
    """Returns the kinds with an input_fn and a batch size."""
    return [kind for kind in self.sizes.kinds() if kind in self.input_fns]

  def per_core(self, kind: Kind, replicas: int) -> int:
    """Returns the per-core batch size of a kind.

    Raises:
      SettingError: there is no size, or the global size is not divisible by the replicas.
    """
    self.sizes.check(replicas)
    return self.sizes.resolve(kind, replicas).per_core


def asked_by_gin() -> experiment.Experiment:
  """Returns the run that the loaded configuration describes.

  Raises:
    SettingError: the configuration has no model_fn.
  """
  run = gin.get_bindings(experiment.Experiment)
  if "model_fn" not in run:
    raise errors.SettingError(
      "No model_fn: bind run.model_fn in a gin file, as in run.model_fn = @my_model.model_fn."
    )
  return experiment.Experiment(**run)


def from_gin(precision: str = "float32") -> Experiment:
  """Returns the experiment that the loaded configuration describes.

  Raises:
    SettingError: the configuration has no model_fn.
  """
  return of_run(asked_by_gin(), precision)


def of_run(asked: experiment.Experiment, precision: str) -> Experiment:
  """Returns the experiment of a run."""
  return Experiment(
    model_fn=asked.model_fn,
    input_fns={kind: fn for kind, fn in asked.input_fns().items() if fn is not None},
    params=dict(asked.params or {}),
    sizes=asked.batch_sizes(),
    config=run_config.RunConfig(device="tpu", precision=precision, train_steps=asked.train_steps),
  )


def place_of(fn: Callable) -> str:
  """Returns "file:line" of a user's function; its name if Python does not know the line."""
  fn = inspect.unwrap(getattr(fn, "func", fn))
  code = getattr(fn, "__code__", None)
  return f"{code.co_filename}:{code.co_firstlineno}" if code else f"{spec.name_of(fn)}"
