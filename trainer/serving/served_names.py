"""Reads the flags of `trainer.serve` that name models and labels of their versions.

models = parse_models(["cats=out/cats/export", "dogs=out/dogs/export"])
parse_labels(["cats/stable=1732283000"], models)    # {("cats", "stable"): "1732283000"}
"""

import re
from collections.abc import Iterable, Mapping

from trainer import errors

_NAME = r"[\w.-]+"


def check_name(name: str, flag: str) -> None:
  """Raises SettingError with the flag's name, unless a name can be part of a path."""
  if not re.fullmatch(_NAME, name):
    raise errors.SettingError(f"{flag}: expected letters, digits, dots and dashes.")


def parse_models(given: Iterable[str]) -> dict[str, str]:
  """Returns name → folder of exports, of flags NAME=DIR.

  Raises:
    SettingError: a flag has another form, or two flags have the same name.
  """
  models: dict[str, str] = {}
  for flag in given:
    name, _, folder = flag.partition("=")
    if not folder:
      raise errors.SettingError(f"--model={flag}: expected NAME=DIR, as cats=out/cats/export.")
    check_name(name, f"--model={flag}")
    if name in models:
      raise errors.SettingError(f"--model={flag}: {name} is {models[name]} already.")
    models[name] = folder
  return models


def parse_labels(given: Iterable[str], models: Mapping[str, str]) -> dict[tuple[str, str], str]:
  """Returns (name, label) → version, of flags NAME/LABEL=N.

  Raises:
    SettingError: a flag has another form or names no model, or two flags have the same label.
  """
  labels: dict[tuple[str, str], str] = {}
  for flag in given:
    found = re.fullmatch(rf"({_NAME})/({_NAME})=(\d+)", flag)
    if not found:
      raise errors.SettingError(
        f"--version_label={flag}: expected NAME/LABEL=VERSION, as cats/stable=1732283000."
      )
    name, label, version = found.groups()
    if name not in models:
      raise errors.SettingError(
        f"--version_label={flag}: there is no model {name}; there is {', '.join(models)}."
      )
    if (name, label) in labels:
      raise errors.SettingError(
        f"--version_label={flag}: {label} is version {labels[name, label]} already."
      )
    labels[name, label] = version
  return labels
