"""Whether the jax that Octet's runtime was tried with is installed."""

import importlib.metadata
from collections.abc import Callable

from packaging import version

from trainer import errors
from trainer.cli import installation

# Both ends were tried; setup.py declares them. Between versions, jaxlib's inner names may change.
OLDEST, NEWEST = "0.8.1", "0.10.2"


def require(version_of: Callable[[str], str] = importlib.metadata.version) -> dict[str, str]:
  """Returns the versions of jax and jaxlib, by name.

  Args:
    version_of: returns the version of an installed package.

  Raises:
    VersionError: one is not installed, or of a version that was not tried.
  """
  try:
    versions = {name: version_of(name) for name in ("jax", "jaxlib")}
  except importlib.metadata.PackageNotFoundError as error:
    raise errors.VersionError(
      f"{error.name} is not installed, and programs for XLA devices run by it: "
      f"{installation.command('pjrt')}."
    ) from error
  for name, found in versions.items():
    if not version.parse(OLDEST) <= version.parse(found) <= version.parse(NEWEST):
      raise errors.VersionError(
        f"{name} {found} is installed; Octet runs programs with {OLDEST} to {NEWEST}: "
        f"{installation.command('pjrt')}."
      )
  return versions
