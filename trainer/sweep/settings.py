"""Reads a sweep file; its gin is separate from the experiment's.

    settings.load("gin_configs/sweeps/digits.gin").space.keys

The reader resolves references to parts of a sweep, such as `@choice()` and `@product()`. All other
references belong to the experiment and stay as written. Macros that the sweep file sets are its
own; all other macros belong to the experiment.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from gin import config_parser

from trainer import config, errors
from trainer.config import binding, checks, files, gin_internals, gin_names, trust, unused_bindings
from trainer.config import text as config_text
from trainer.sweep import constraints as constraints_lib
from trainer.sweep import gin_text, grid, optuna_parts, space

_ROOT = "trainer.sweep"


@dataclasses.dataclass(frozen=True)
class Settings:
  """The settings of a sweep.

  Attributes:
    space: the parameters that vary.
    metrics: names of the metrics to optimize, as evaluations report them: "accuracy", or
      "name/accuracy" for an evaluation with a name.
    modes: "max" or "min" for each metric.
    sampler: see optuna_parts.sampler.
    sampler_options: see optuna_parts.sampler.
    pruner: see optuna_parts.pruner.
    pruner_options: see optuna_parts.pruner.
    bindings: gin bindings ("key = value") of all trials.
    seed: of the sampler.
    constraints: bounds that a good trial keeps.
    seeds: of the runs of each trial; their mean judges the trial; () for one run.
  """

  space: "space.Space | grid.Grid"
  metrics: tuple[str, ...]
  modes: tuple[str, ...]
  sampler: str
  sampler_options: dict[str, Any]
  pruner: str
  pruner_options: dict[str, Any]
  bindings: tuple[str, ...]
  seed: int
  constraints: tuple[constraints_lib.Constraint, ...] = ()
  seeds: tuple[int, ...] = ()

  @property
  def judged(self) -> list[str]:
    """The names of all metrics in use, for optimization and constraints."""
    return list(dict.fromkeys([*self.metrics, *(each.metric for each in self.constraints)]))

  @property
  def directions(self) -> list[str]:
    """The modes as Optuna calls them."""
    return ["maximize" if mode == "max" else "minimize" for mode in self.modes]

  def make_sampler(self, number: int) -> Any:
    """Makes the sampler of one trial, see optuna_parts.sampler."""
    fixed = self.space.fixed(number)
    return optuna_parts.sampler(
      self.sampler, self.sampler_options, self.seed, number, fixed, bool(self.constraints)
    )

  def choose(self, trial: Any) -> list[str]:
    """Chooses the parameters of an optuna.Trial; returns its own gin bindings."""
    return [gin_text.binding(key, text) for key, text in self.space.suggest(trial).items()]

  def overridden(self, bindings: Sequence[str]) -> list[str]:
    """Returns the keys of gin bindings that the sweep file sets, too; its values win."""
    own = {key.partition("=")[0].strip() for key in (*self.bindings, *self.space.keys)}
    return [key for one in bindings if (key := one.partition("=")[0].strip()) in own]

  def definition(self) -> dict[str, Any]:
    """Returns the settings that must not change in a resumed sweep, in JSON's types."""
    # A sweep that an earlier version began lacks the keys of newer settings.
    more = {"constraints": [each.text for each in self.constraints], "seeds": list(self.seeds)}
    return {
      "space": self.space.definition(),
      "metric": list(self.metrics),
      "mode": list(self.modes),
      "bindings": list(self.bindings),
      **{key: value for key, value in more.items() if value},
    }


@gin_names.configurable(module="trainer")
def sweep(
  metric: str | Sequence[str],
  mode: str | Sequence[str],
  space: Mapping[str, Any] | None = None,
  grid: Any = None,
  sampler: str | None = None,
  sampler_options: dict[str, Any] | None = None,
  pruner: str = "none",
  pruner_options: dict[str, Any] | None = None,
  bindings: Mapping[str, Any] | None = None,
  seed: int = 0,
  constraints: Sequence[str] = (),
  seeds: Sequence[int] = (),
) -> Settings:
  """The function that a sweep file binds.

  Args:
    metric: the metric of a trial's last evaluation to optimize: "accuracy", or "name/accuracy" for
      an evaluation with a name. A list for several metrics.
    mode: "max" or "min"; a list for several metrics.
    space: key → distribution, see `trainer.sweep.space`.
    grid: instead of space: @product(), @zip() or @chain(), see `trainer.sweep.grid`.
    sampler: "tpe" (the default), "gp", "random", "cmaes" or "nsgaii".
    sampler_options: arguments of Optuna's sampler, such as {'n_startup_trials': 5}.
    pruner: "none", "median", "asha" or "hyperband". A pruner ends trials early if their evaluations
      are worse than other trials'. It needs a single metric.
    pruner_options: arguments of Optuna's pruner, such as {'min_resource': 100, 'reduction_factor':
      3}; a resource is a training step.
    bindings: key → value of bindings for all trials.
    seed: with the same seed, trial n of a "random" sweep always has the same parameters.
    constraints: bounds of metrics, such as ['recall >= 0.9']. The best trial keeps them, and the
      samplers "tpe", "gp" and "nsgaii" look for such trials.
    seeds: such as [1, 2, 3]: each trial runs once with each of these seeds, instead of --seed, and
      the mean of its metrics judges it.

  Raises:
    SettingError: an argument is wrong; the message names it.
  """
  if (space is None) == (grid is None):
    raise errors.SettingError("A sweep file must bind sweep.space or sweep.grid, and not both.")
  metrics, modes = _list(metric), _list(mode)
  if (
    not metrics
    or not all(isinstance(name, str) and name for name in metrics)
    or len(set(metrics)) < len(metrics)
  ):
    raise errors.SettingError(
      "sweep.metric must be the name of a metric, such as 'accuracy', or "
      f"a list of different names; got {metric!r}."
    )
  if len(modes) != len(metrics) or not set(modes) <= {"max", "min"}:
    raise errors.SettingError(
      f"sweep.mode must be 'max' or 'min' for each of the {len(metrics)} "
      f"metrics in sweep.metric; got {mode!r}."
    )
  if grid is not None and sampler is not None:
    raise errors.SettingError(
      f"sweep.sampler = {sampler!r}: a sweep.grid has a fixed list of trials, and no sampler."
    )
  varied = _varied(space, grid)
  # A grid fixes all values, and its sampler has none to choose.
  sampler = sampler or ("random" if grid is not None else "tpe")
  optuna_parts.check(sampler, sampler_options or {}, pruner, pruner_options or {}, len(metrics))
  repeated = sorted(set(bindings or {}) & set(varied.keys))
  if repeated:
    raise errors.SettingError(f"sweep.bindings sets {repeated[0]!r}, and the sweep varies it.")
  fixed = tuple(
    gin_text.binding(key, gin_text.text(value)) for key, value in (bindings or {}).items()
  )
  return Settings(
    varied,
    tuple(metrics),
    tuple(modes),
    sampler,
    sampler_options or {},
    pruner,
    pruner_options or {},
    fixed,
    seed,
    tuple(constraints_lib.parse(text) for text in constraints),
    _seeds(seeds),
  )


def load(path: str | os.PathLike[str], modules: Sequence[str] | None = (trust.FOLDER,)) -> Settings:
  """Reads a sweep file. It drops all gin bindings, before and after.

  Args:
    path: of the file.
    modules: modules that it may import and name, see `trainer.config.trust`.

  Raises:
    SettingError: names the file and line if known, the text there, and similar names.
  """
  file = files.read(path)
  config.clear()
  try:
    places: dict[gin_internals.Key, str] = {}
    binding.apply(_as_written(file, _macros(file)), places, trust.Allowed(modules))
    checks.check(places, gin_internals.configurable_of(sweep))
    dead = unused_bindings.find([_ROOT])
    if dead:
      raise errors.SettingError(
        f"Bindings without effect: {unused_bindings.describe(dead[0], places)}"
      )
    return sweep()
  finally:
    config.clear()


def _seeds(seeds):
  if len(set(seeds)) < len(seeds):
    raise errors.SettingError(f"sweep.seeds has a seed twice: {list(seeds)}.")
  return tuple(seeds)


def _varied(points_space, points_grid):
  if points_grid is not None:
    return grid.Grid(grid.points_of(points_grid))
  return space.Space(points_space)


def _list(value):
  return list(value) if isinstance(value, list | tuple) else [value]


def _macros(file):
  """Returns the names of the macros that a files.File sets."""
  names: set[str] = set()
  for statement in file.statements:
    if isinstance(statement, files.File):
      names |= _macros(statement)
    elif isinstance(statement, config_parser.BindingStatement) and not statement.arg_name:
      names.add(
        f"{statement.scope}/{statement.selector}" if statement.scope else statement.selector
      )
  return names


def _as_written(file, macros):
  """Replaces references and macros of the experiment in a files.File by config_text.Verbatim."""
  statements = []
  for statement in file.statements:
    if isinstance(statement, files.File):
      statement = _as_written(statement, macros)
    elif isinstance(statement, config_parser.BindingStatement):
      if statement.arg_name and not _is_own(statement.selector):
        name = (
          f"{statement.scope}/" * bool(statement.scope)
          + f"{statement.selector}.{statement.arg_name}"
        )
        own = [
          selector.rpartition(".")[2]
          for selector in gin_internals.all_selectors()
          if _is_own(selector)
        ]
        near = files.did_you_mean(statement.selector, own)
        raise errors.SettingError(
          f"{files.place(statement.location)}: {name} is not of the sweep.{near} To set "
          "something of the experiment for all trials, write "
          f"sweep.bindings = {{'{name}': ...}}."
        )
      statement = statement._replace(value=_value(statement.value, macros))
    statements.append(statement)
  return dataclasses.replace(file, statements=tuple(statements))


def _is_own(selector):
  """Whether a selector fits a part of a sweep, such as `choice`."""
  return any(
    f"{found}.".startswith(f"{_ROOT}.") for found in gin_internals.matching_selectors(selector)
  )


def _value(value, macros):
  if isinstance(value, files.Reference):
    return value if _is_own(value.name.rpartition("/")[2]) else config_text.Verbatim(str(value))
  if isinstance(value, files.Macro):
    return value if value.name in macros else config_text.Verbatim(str(value))
  if isinstance(value, dict):
    return {_value(key, macros): _value(item, macros) for key, item in value.items()}
  if isinstance(value, list | tuple):
    return type(value)(_value(item, macros) for item in value)
  return value
