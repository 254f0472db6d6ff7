"""Makes Optuna's samplers and pruners by their names in a sweep file.

This module imports Optuna when it makes the first one.
"""

import importlib.util
import inspect
import warnings
import zlib
from collections.abc import Mapping
from typing import Any

from trainer import errors
from trainer.cli import installation
from trainer.config import files

SAMPLERS = {
  "tpe": "TPESampler",
  "gp": "GPSampler",
  "random": "RandomSampler",
  "cmaes": "CmaEsSampler",
  "nsgaii": "NSGAIISampler",
}
PRUNERS = {
  "none": "NopPruner",
  "median": "MedianPruner",
  "asha": "SuccessiveHalvingPruner",
  "hyperband": "HyperbandPruner",
}

# Samplers for several metrics.
_MULTI_OBJECTIVE = ("tpe", "gp", "random", "nsgaii")

# The keys of a trial's user attributes with its violations (text of a constraint → number), and
# with the values of the constrained metrics.
CONSTRAINTS, CONSTRAINED = "constraints", "constrained"


def library() -> Any:
  """Imports optuna, without its log lines, and returns the module.

  Raises:
    SettingError: Optuna is missing.
  """
  try:
    import optuna
  except ImportError:
    raise errors.SettingError(f"Sweeps need Optuna: {installation.command('sweep')}.") from None
  optuna.logging.set_verbosity(optuna.logging.WARNING)
  warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
  return optuna


def check(
  sampler_name: str,
  sampler_options: dict[str, Any],
  pruner_name: str,
  pruner_options: dict[str, Any],
  metrics: int,
) -> None:
  """Checks names and options of a sampler and a pruner.

  Raises:
    SettingError: a name or an option does not exist, or does not work with several metrics.
  """
  _check_name(sampler_name, SAMPLERS, "sweep.sampler")
  _check_name(pruner_name, PRUNERS, "sweep.pruner")
  if metrics > 1 and sampler_name not in _MULTI_OBJECTIVE:
    raise errors.SettingError(
      f"sweep.sampler = {sampler_name!r} is for one metric; for {metrics}, "
      f"take one of {', '.join(_MULTI_OBJECTIVE)}."
    )
  if metrics > 1 and pruner_name != "none":
    raise errors.SettingError(
      f"sweep.pruner = {pruner_name!r} is for one metric, and sweep.metric has {metrics}."
    )
  sampler(sampler_name, sampler_options, 0, 0)
  pruner(pruner_name, pruner_options)


def sampler(
  name: str,
  options: dict[str, Any],
  seed: int,
  number: int,
  fixed: Mapping[str, str] | None = None,
  is_constrained: bool = False,
) -> Any:
  """Makes the sampler that chooses the parameters of one trial.

  Each trial has a sampler of its own, seeded by the trial's number. So its choice depends neither
  on the process that asks, nor on interruptions of the sweep.

  Args:
    name: one of SAMPLERS.
    options: arguments of Optuna's sampler.
    seed: of the sweep.
    number: of the trial.
    fixed: key → gin text of parameters that the sampler does not choose.
    is_constrained: whether trials have constraints, see `set_constraints`.

  Raises:
    SettingError: an option is wrong, or a package is missing.
  """
  optuna = library()
  # Not hash(): Python salts the hash of a text anew in each process.
  extra: dict[str, Any] = {"seed": zlib.crc32(f"{seed}/{number}".encode())}
  if name == "gp":
    extra["warn_independent_sampling"] = False
    _require_gp()
  if name == "cmaes":
    extra["warn_independent_sampling"] = False
    try:
      import cmaes  # noqa: F401
    except ImportError:
      raise errors.SettingError(
        f"sweep.sampler = 'cmaes' needs the package cmaes: {installation.command('sweep')}."
      ) from None
  kind = getattr(optuna.samplers, SAMPLERS[name])
  # From Optuna 5 on, samplers see a trial's constraints; Optuna 4's samplers ask a function.
  knows_trials = hasattr(optuna.Trial, "set_constraint")
  if (
    is_constrained and not knows_trials and "constraints_func" in inspect.signature(kind).parameters
  ):
    extra["constraints_func"] = lambda trial: list(trial.user_attrs.get(CONSTRAINTS, {}).values())
  made = _make(kind, options, "sweep.sampler_options", extra)
  return optuna.samplers.PartialFixedSampler(fixed, made) if fixed else made


def set_constraints(trial: Any, violations: Mapping[str, float]) -> None:
  """Records in an optuna.Trial how much it breaks each constraint, before its result.

  Args:
    trial: the trial.
    violations: text of a constraint → a number greater than 0 if the trial breaks it.
  """
  trial.set_user_attr(CONSTRAINTS, dict(violations))
  if hasattr(trial, "set_constraint"):
    for text, value in violations.items():
      if text not in trial.constraints:  # A former process set it and then died.
        trial.set_constraint(text, value)


def violated(trial: Any) -> list[str]:
  """Returns the constraints that a trial breaks, with the sweep file's text."""
  violations = trial.user_attrs.get(CONSTRAINTS, {})
  return [text for text, value in violations.items() if value > 0]


def _require_gp():
  """Raises SettingError unless the sampler "gp" can work."""
  for package in ("torch", "scipy"):
    if importlib.util.find_spec(package) is None:
      raise errors.SettingError(
        f"sweep.sampler = 'gp' needs the package {package}: pip install {package}. 'tpe' works "
        "without it."
      )


def pruner(name: str, options: dict[str, Any]) -> Any:
  """Makes a pruner.

  Raises:
    SettingError: an option is wrong.
  """
  return _make(getattr(library().pruners, PRUNERS[name]), options, "sweep.pruner_options")


def _check_name(name, known, where):
  if name not in known:
    near = files.did_you_mean(str(name), known)
    raise errors.SettingError(f"{where} = {name!r}: expected one of {', '.join(known)}.{near}")


def _make(kind, options, where, extra=None):
  if not isinstance(options, dict):
    raise errors.SettingError(f"{where} must be a dict of Optuna's arguments; got {options!r}.")
  known = [name for name in inspect.signature(kind).parameters if name != "seed"]
  unknown = [name for name in options if name not in known]
  if unknown:
    # One seed for all would give all trials the same parameters.
    hint = " Octet derives its seed from sweep.seed." if unknown[0] == "seed" and extra else ""
    raise errors.SettingError(
      f"{where} has {unknown[0]!r}; {kind.__name__} takes {', '.join(known) or 'none'}.{hint}"
    )
  try:
    return kind(**{**(extra or {}), **options})
  except (TypeError, ValueError) as error:
    raise errors.SettingError(f"{where}: {error}") from error
