"""Which TensorFlow is installed, found out without importing it: some pairs of packages abort
the process when they are imported.
"""

import dataclasses
import importlib.metadata
import re

from trainer import errors

_PACKAGES = ("tensorflow-tpu", "tensorflow-cpu", "tensorflow")

# Tried with tensorflow-tpu 2.20: libtpu 0.0.15 to 0.0.31 import; from 0.0.32 on the import aborts
# (ConfigureDistributedTpuOp_DoWork not available).
_LIBTPU = ((0, 0, 15), (0, 0, 31))


@dataclasses.dataclass(frozen=True)
class Installed:
  """What is installed.

  Attributes:
    packages: dict of package name → version, of those of TensorFlow that are there.
    libtpu: libtpu's version, or None.
  """

  packages: dict[str, str]
  libtpu: str | None

  @property
  def for_tpu(self):
    """Whether it is the TensorFlow that drives TPUs."""
    return "tensorflow-tpu" in self.packages

  def problem(self):
    """One sentence on what does not fit and what to do, or None."""
    if not self.packages:
      return "TensorFlow is not installed: pip install 'octet[cpu]' (or [gpu], [tpu])."
    if len(self.packages) > 1:
      found = " and ".join(f"{name} {version}" for name, version in self.packages.items())
      return f"{found} are installed and overwrite each other: uninstall all of them, then pip install one of octet[cpu], octet[gpu], octet[tpu]."
    if self.for_tpu and self.libtpu is None:
      return f"tensorflow-tpu needs libtpu: pip install 'libtpu<={_shown(_LIBTPU[1])}'."
    if self.for_tpu and not _LIBTPU[0] <= _numbers(self.libtpu) <= _LIBTPU[1]:
      return (
        f"libtpu {self.libtpu} does not fit tensorflow-tpu "
        f"{self.packages['tensorflow-tpu']}, whose import would abort: "
        f"pip install 'libtpu>={_shown(_LIBTPU[0])},<={_shown(_LIBTPU[1])}'."
      )
    return None

  def __str__(self):
    names = [f"{name} {version}" for name, version in self.packages.items()] or ["no TensorFlow"]
    return ", ".join([*names, f"libtpu {self.libtpu}" if self.libtpu else "no libtpu"])


def installed(version=importlib.metadata.version):
  """An Installed; `version` gives a package's version or raises PackageNotFoundError."""

  def find(name):
    try:
      return version(name)
    except importlib.metadata.PackageNotFoundError:
      return None

  found = {name: find(name) for name in _PACKAGES}
  return Installed({name: number for name, number in found.items() if number}, find("libtpu"))


def check():
  """Raises SettingError if TensorFlow cannot be imported as it is installed.

  To be called before the import.
  """
  problem = installed().problem()
  if problem:
    raise errors.SettingError(problem)


def _numbers(version):
  return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _shown(numbers):
  return ".".join(map(str, numbers))
