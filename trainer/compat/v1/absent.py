"""Errors that say of a name that is not there why, and modules that can be imported without it."""

import importlib.abc
import importlib.machinery
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from trainer.compat.v1 import absent_names

_PACKAGE = "trainer.compat.v1"
_GUIDE = "docs/migrate_from_tpuestimator.md"

# Modules that programs import at their top, for the sake of an option that is off.
_FOR_OPTIONS = ("contrib.bigtable", "contrib.cloud", "contrib.quantize", "contrib.tensorrt")


class AbsentNameError(AttributeError):
  """A name of TensorFlow that `trainer.compat.v1` does not have; `hasattr` says so too.

  Attributes:
    name: the name, without the module in front.
    reason: why it is not there.
    replacement: what to use, or "".
  """

  def __init__(self, name: str, reason: str = ""):
    known = absent_names.reason_and_replacement(name)
    self.reason = reason or known[0]
    self.replacement = "" if reason else known[1]
    super().__init__(_sentence(name, self.reason, self.replacement), name=name)


class AbsentModuleError(ImportError):
  """An import of a name that `trainer.compat.v1` does not have; as AbsentNameError.

  Attributes:
    name: the name that was imported, with the module in front.
  """

  def __init__(self, module: str):
    name = module.removeprefix(f"{_PACKAGE}.")
    super().__init__(_sentence(name, *absent_names.reason_and_replacement(name)), name=module)


class AbsentModule(ModuleType):
  """A module that may be imported and has no names: each says why."""

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):
      raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
    raise AbsentNameError(f"{self.__name__}.{name}".removeprefix(f"{_PACKAGE}."))


class AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
  """The last of the finders of modules: says of this package's why one is not there.

  `from trainer.compat.v1.contrib import gan` asks for an attribute first and then for a module.
  Python drops the error of the first, so that the second has to give the reason.

  Those of _FOR_OPTIONS are AbsentModules, with which a program runs that does not need them.
  """

  def find_spec(
    self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
  ) -> importlib.machinery.ModuleSpec | None:
    """Raises AbsentModuleError for a name of this package; None for all others."""
    if fullname.removeprefix(f"{_PACKAGE}.") in _FOR_OPTIONS:
      return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
    if fullname.startswith(f"{_PACKAGE}."):
      raise AbsentModuleError(fullname)
    return None

  def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
    return AbsentModule(spec.name)

  def exec_module(self, module: ModuleType) -> None:
    """Nothing: it has no names."""


def _sentence(name: str, reason: str, replacement: str) -> str:
  advice = f" Use {replacement}." if replacement else f" See {_GUIDE}."
  return f"{_PACKAGE} has no {name}: {reason}{advice}"
