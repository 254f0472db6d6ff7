"""Reads the flags of `trainer.serve` that name models.

models = parse_models(["cats=out/cats/export", "dogs=out/dogs/export"])
"""

import re
from collections.abc import Iterable

from trainer import errors


def check_name(name: str, flag: str) -> None:
  """Raises SettingError with the flag's name, unless a name can be part of a path."""
  if not re.fullmatch(r"[\w.-]+", name):
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
