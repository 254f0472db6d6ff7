"""Says which TensorFlow is installed, without importing it."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Callable

from trainer import errors
from trainer.cli import installation

# tensorflow-tpu is no way to a TPU any more, but may be left from an earlier installation.
_PACKAGES = ("tensorflow-tpu", "tensorflow-cpu", "tensorflow")


@dataclasses.dataclass(frozen=True)
class Installed:
  """What is installed.

  Attributes:
    packages: package name → version, of the TensorFlow packages that are installed.
  """

  packages: dict[str, str]

  def problem(self) -> str | None:
    """Returns a sentence that says what does not fit and what to do, or None."""
    if not self.packages:
      return f"TensorFlow is not installed: {installation.command('cpu')} (or [gpu], [tpu])."
    if len(self.packages) > 1:
      found = " and ".join(f"{name} {version}" for name, version in self.packages.items())
      return (
        f"{found} are installed and overwrite each other: uninstall all of them, then "
        f"install one: {installation.command('cpu')} (or [gpu], [tpu])."
      )
    return None

  def __str__(self) -> str:
    return ", ".join(f"{name} {version}" for name, version in self.packages.items()) or (
      "no TensorFlow"
    )


def installed(version: Callable[[str], str] = importlib.metadata.version) -> Installed:
  """Finds out what is installed.

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
  """Checks what is installed.

  Raises:
    SettingError: TensorFlow cannot be imported as it is installed.
  """
  problem = installed().problem()
  if problem:
    raise errors.SettingError(problem)
