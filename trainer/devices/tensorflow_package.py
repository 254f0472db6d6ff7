"""Says which TensorFlow is installed, without importing it.

Some pairs of packages abort the process when they are imported.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
from collections.abc import Callable

from trainer import errors
from trainer.cli import installation

_PACKAGES = ("tensorflow-tpu", "tensorflow-cpu", "tensorflow")

# Tried with tensorflow-tpu 2.20: libtpu 0.0.15 to 0.0.31 import; from 0.0.32 on the import aborts
# (ConfigureDistributedTpuOp_DoWork not available).
_LIBTPU = ((0, 0, 15), (0, 0, 31))


@dataclasses.dataclass(frozen=True)
class Installed:
  """What is installed.

  Attributes:
    packages: package name → version, of the TensorFlow packages that are installed.
    libtpu: the version of libtpu, or None.
  """

  packages: dict[str, str]
  libtpu: str | None

  @property
  def for_tpu(self) -> bool:
    """Whether the TensorFlow that drives TPUs is installed."""
    return "tensorflow-tpu" in self.packages

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
    if self.for_tpu and self.libtpu is None:
      return f"tensorflow-tpu needs libtpu: pip install 'libtpu<={_shown(_LIBTPU[1])}'."
    if self.for_tpu and not _LIBTPU[0] <= _numbers(self.libtpu) <= _LIBTPU[1]:
      return (
        f"libtpu {self.libtpu} does not fit tensorflow-tpu "
        f"{self.packages['tensorflow-tpu']}, whose import would abort: "
        f"pip install 'libtpu>={_shown(_LIBTPU[0])},<={_shown(_LIBTPU[1])}'."
      )
    return None

  def name(self) -> str:
    """Returns the TensorFlow with its version, such as "tensorflow-cpu 2.21.0"."""
    return ", ".join(f"{name} {version}" for name, version in self.packages.items()) or (
      "no TensorFlow"
    )

  def __str__(self) -> str:
    return f"{self.name()}, {f'libtpu {self.libtpu}' if self.libtpu else 'no libtpu'}"


def installed(version: Callable[[str], str] = importlib.metadata.version) -> Installed:
  """Finds out what is installed.

  Args:
    version: returns the version of a package, or raises PackageNotFoundError.
  """

  def find(name):
    try:
      return version(name)
    except importlib.metadata.PackageNotFoundError:
      return None

  found = {name: find(name) for name in _PACKAGES}
  return Installed({name: number for name, number in found.items() if number}, find("libtpu"))


def check() -> None:
  """Checks what is installed; call it before `import tensorflow`.

  Raises:
    SettingError: TensorFlow cannot be imported as it is installed.
  """
  problem = installed().problem()
  if problem:
    raise errors.SettingError(problem)


def _numbers(version):
  return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _shown(numbers):
  return ".".join(map(str, numbers))
