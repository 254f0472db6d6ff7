"""Errors that say of a name that is not there why, and modules that can be imported without it."""

import importlib.abc
import importlib.machinery
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from trainer.compat.names import absent_names

_V1, _V2 = "trainer.compat.v1", "trainer.compat.v2"
_GUIDE = "docs/migrate_from_tpuestimator.md"

# Modules that programs import at their top, for the sake of an option that is off.
_FOR_OPTIONS = ("contrib.bigtable", "contrib.cloud", "contrib.quantize", "contrib.tensorrt")


class AbsentNameError(AttributeError):
  """A name of TensorFlow that the package does not have; `hasattr` says so too.

  Attributes:
    name: the name, without the module in front.
    reason: why it is not there.
    replacement: what to use, or "".
  """

  def __init__(self, name: str, reason: str = "", package: str = _V1):
    known = absent_names.reason_and_replacement(name, package == _V2)
    self.reason = reason or known[0]
    self.replacement = "" if reason else known[1]
    super().__init__(_sentence(package, name, self.reason, self.replacement), name=name)


class AbsentModuleError(ImportError):
  """An import of a name that the package does not have; as AbsentNameError.

  Attributes:
    name: the name that was imported, with the module in front.
  """

  def __init__(self, module: str, package: str = _V1):
    name = module.removeprefix(f"{package}.")
    known = absent_names.reason_and_replacement(name, package == _V2)
    super().__init__(_sentence(package, name, *known), name=module)


class AbsentModule(ModuleType):
  """A module that may be imported and has no names: each says why."""

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):
      raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
    raise AbsentNameError(f"{self.__name__}.{name}".removeprefix(f"{_V1}."))


class AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
  """The last of the finders of modules: says of the two packages' why one is not there.

  `from trainer.compat.v1.contrib import gan` asks for an attribute first and then for a module.
  Python drops the error of the first, so that the second has to give the reason.

  Those of _FOR_OPTIONS are AbsentModules, with which a program runs that does not need them.
  """

  def find_spec(
    self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
  ) -> importlib.machinery.ModuleSpec | None:
    """Raises AbsentModuleError for a name of this package; None for all others."""
    if fullname.removeprefix(f"{_V1}.") in _FOR_OPTIONS:
      return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
    for package in (_V1, _V2):
      if fullname.startswith(f"{package}."):
        raise AbsentModuleError(fullname, package)
    return None

  def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
    return AbsentModule(spec.name)

  def exec_module(self, module: ModuleType) -> None:
    """Nothing: it has no names."""


def _sentence(package: str, name: str, reason: str, replacement: str) -> str:
  advice = f" Use {replacement}." if replacement else f" See {_GUIDE}."
  return f"{package} has no {name}: {reason}{advice}"
