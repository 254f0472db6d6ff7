"""Checks for a tested version of jax."""

import importlib.metadata
import os
from collections.abc import Callable

from packaging import version

from trainer import errors
from trainer.cli import installation

# The tests ran with both ends; setup.py declares them. jaxlib's inner names may change between
# versions.
OLDEST, NEWEST = "0.8.1", "0.11.2"

PACKAGES = ("jax", "jaxlib", "libtpu")

_CUDA_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")

VersionOf = Callable[[str], str]


def require(
  platform: str = "cpu", version_of: VersionOf = importlib.metadata.version
) -> dict[str, str]:
  """Returns the versions of jax and jaxlib, by name.

  Args:
    platform: "cpu", "gpu" or "tpu".
    version_of: returns the version of an installed package.

  Raises:
    VersionError: jax, jaxlib or, for a TPU, libtpu is missing, or has an untested version.
  """
  found = versions(version_of)
  for name in PACKAGES:
    if name not in found and (name != "libtpu" or platform == "tpu"):
      raise errors.VersionError(
        f"{name} is missing, and programs for XLA devices need it: {command(platform)}."
      )
  pair = {name: found[name] for name in ("jax", "jaxlib")}
  for name, number in pair.items():
    if not version.parse(OLDEST) <= version.parse(number) <= version.parse(NEWEST):
      raise errors.VersionError(
        f"{name} {number} does not fit: Octet runs programs with {OLDEST} to {NEWEST}: "
        f"{command(platform)}."
      )
  return pair


def versions(version_of: VersionOf = importlib.metadata.version) -> dict[str, str]:
  """Returns the versions of the installed PACKAGES, by name."""
  found = {}
  for name in PACKAGES:
    try:
      found[name] = version_of(name)
    except importlib.metadata.PackageNotFoundError:
      # jax takes the libtpu of this path before the package.
      path = os.environ.get("TPU_LIBRARY_PATH", "")
      if name == "libtpu" and os.path.isfile(path):
        found[name] = path
  return found


def cuda_plugin(version_of: VersionOf = importlib.metadata.version) -> str:
  """Returns jax's plug-in for NVIDIA's GPUs, such as "jax-cuda13-plugin 0.11.2"; or ""."""
  for name in _CUDA_PLUGINS:
    try:
      return f"{name} {version_of(name)}"
    except importlib.metadata.PackageNotFoundError:
      continue
  return ""


def command(platform: str) -> str:
  """Returns the shell command that installs the packages for a platform."""
  return installation.command({"tpu": "tpu", "gpu": "xla-gpu"}.get(platform, "pjrt"))
