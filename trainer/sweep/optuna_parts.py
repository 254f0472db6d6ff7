"""Optuna's samplers and pruners by the names that a sweep file has for them.

Optuna is imported when one is made.
"""

import inspect
import warnings
import zlib

from trainer import errors
from trainer.config import files

SAMPLERS = {
  "tpe": "TPESampler",
  "random": "RandomSampler",
  "grid": "RandomSampler",
  "cmaes": "CmaEsSampler",
  "nsgaii": "NSGAIISampler",
}
PRUNERS = {
  "none": "NopPruner",
  "median": "MedianPruner",
  "asha": "SuccessiveHalvingPruner",
  "hyperband": "HyperbandPruner",
}

# For several metrics.
_MULTI_OBJECTIVE = ("tpe", "random", "grid", "nsgaii")


def library():
  """The module optuna, quiet; SettingError if it is not installed."""
  try:
    import optuna
  except ImportError:
    raise errors.SettingError("Sweeps need Optuna: pip install 'octet[sweep]'.") from None
  optuna.logging.set_verbosity(optuna.logging.WARNING)
  warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
  return optuna


def check(sampler_name, sampler_options, pruner_name, pruner_options, metrics):
  """Raises SettingError if a name or an option does not exist, or if it is not for so many
  metrics.
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


def sampler(name, options, seed, number, fixed=None):
  """The sampler that chooses the parameters of the trial of this number, but for those that `fixed`
  has (dict of name → value).

  Each trial has a sampler of its own, seeded by the trial's number: which process asks for it, and
  how often the sweep was begun again, is the same.
  """
  optuna = library()
  extra = {"seed": zlib.crc32(f"{seed}/{number}".encode())}
  if name == "cmaes":
    extra["warn_independent_sampling"] = False
    try:
      import cmaes  # noqa: F401
    except ImportError:
      raise errors.SettingError(
        "sweep.sampler = 'cmaes' needs the package cmaes: pip install 'octet[sweep]'."
      ) from None
  made = _make(
    getattr(optuna.samplers, SAMPLERS[name]), {**extra, **options}, "sweep.sampler_options"
  )
  return optuna.samplers.PartialFixedSampler(fixed, made) if fixed else made


def pruner(name, options):
  """The pruner."""
  return _make(getattr(library().pruners, PRUNERS[name]), options, "sweep.pruner_options")


def _check_name(name, known, where):
  if name not in known:
    near = files.did_you_mean(str(name), known)
    raise errors.SettingError(f"{where} = {name!r}: expected one of {', '.join(known)}.{near}")


def _make(kind, options, where):
  if not isinstance(options, dict):
    raise errors.SettingError(f"{where} must be a dict of Optuna's arguments; got {options!r}.")
  known = [name for name in inspect.signature(kind).parameters if name != "seed"]
  unknown = [name for name in options if name not in known and name != "seed"]
  if unknown or ("seed" in options and "seed" not in inspect.signature(kind).parameters):
    raise errors.SettingError(
      f"{where} has {(unknown or ['seed'])[0]!r}; {kind.__name__} takes "
      f"{', '.join(known) or 'none'}."
    )
  try:
    return kind(**options)
  except (TypeError, ValueError) as error:
    raise errors.SettingError(f"{where}: {error}") from error
