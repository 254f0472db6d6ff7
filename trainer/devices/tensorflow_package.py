"""Finds the installed TensorFlow without importing it."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Callable

from trainer import errors
from trainer.cli import installation

# tensorflow-tpu no longer drives a TPU, but may remain from an earlier installation.
_PACKAGES = ("tensorflow-tpu", "tensorflow-cpu", "tensorflow")


@dataclasses.dataclass(frozen=True)
class Installed:
  """The installed TensorFlow packages.

  Attributes:
    packages: package name → version.
  """

  packages: dict[str, str]

  def problem(self) -> str | None:
    """Returns a sentence with a misfit and its remedy, or None."""
    if not self.packages:
      return f"This Python has no TensorFlow: {installation.command('cpu')} (or [gpu], [tpu])."
    if len(self.packages) > 1:
      found = " and ".join(f"{name} {version}" for name, version in self.packages.items())
      return (
        f"This Python has {found}, and they overwrite each other: uninstall all, then install one: "
        f"{installation.command('cpu')} (or [gpu], [tpu])."
      )
    return None

  def __str__(self) -> str:
    return ", ".join(f"{name} {version}" for name, version in self.packages.items()) or (
      "no TensorFlow"
    )


def installed(version: Callable[[str], str] = importlib.metadata.version) -> Installed:
  """Finds the installed packages.

  Args:
    version: returns the version of a package, or raises PackageNotFoundError.
  """
  found = {}
  for name in _PACKAGES:
    try:
      found[name] = version(name)
    except importlib.metadata.PackageNotFoundError:
      continue
  return Installed(found)


def check() -> None:
  """Checks the installed packages.

  Raises:
    SettingError: Python cannot import the installed TensorFlow.
  """
  problem = installed().problem()
  if problem:
    raise errors.SettingError(problem)
