"""The modules of `v1` and `v2`. They have no files: tables list the names of each module.

    MODULES = {
      "contrib.training": Names(".contrib.training", "tensorflow.compat.v1.train"),
      "tpu": Names("tensorflow.compat.v1.tpu", homes={"trainer": "CrossShardOptimizer"}),
    }

A name comes from its home if it has one, then from a module below this one, then from the first
listed module with the name. If no module has it, it raises an AbsentNameError, with the reason and
a replacement; its import raises an AbsentModuleError. See docs/architecture.md.
"""

import functools
import importlib
import importlib.abc
import importlib.machinery
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer.compat.names import absent, absent_names

_COMPAT = "trainer.compat"

# Package, `trainer.compat.v1` or `trainer.compat.v2` → its modules, without the package's name.
_tables: dict[str, Mapping[str, "Names"]] = {}

# A module inside one of contrib's modules, which programs import by its path in TensorFlow.
_INSIDE = re.compile(r"(contrib\.\w+)\.python((?:\.\w+)*)")
_DEPTH = 2  # the levels below `python`: the folder, and the module


class Names:
  """The names of a module.

  Args:
    *modules: dotted names of modules to search in turn. A leading dot means trainer.compat; the
      module has all of its public names.
    homes: module → names to take only from it, separated by spaces; `new=old` if the name differs
      there.
    **constants: values.

  Attributes:
    modules: modules of other packages, for a search by name.
    own: modules of trainer.compat.
    homes: name → (its module, its name there).
    constants: the argument.
  """

  def __init__(
    self, *modules: str, homes: Mapping[str, str] = types.MappingProxyType({}), **constants: Any
  ):
    self.constants = constants
    self.own = [one for one in modules if one.startswith(".")]
    self.modules = [one for one in modules if not one.startswith(".")]
    self.homes = {}
    for home, names in homes.items():
      for new, _, old in (name.partition("=") for name in names.split()):
        self.homes[new] = home, old or new


class Module(types.ModuleType):
  """A module of a table. Its `__name__` is its full name."""

  def __getattr__(self, name: str) -> Any:
    return value(self.__name__, name)

  def __dir__(self) -> list[str]:
    return names_of(self.__name__)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
  """Finds the modules of the tables; for other modules below, raises the reason of their absence.

  `from trainer.compat.v1.contrib import gan` asks for an attribute first and then for a module.
  Python drops the first error, so the second must give the reason.
  """

  def find_spec(
    self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
  ) -> importlib.machinery.ModuleSpec | None:
    """Raises AbsentModuleError for a module in no table; returns None for other packages."""
    package, public = _split(fullname)
    if package not in _tables or not public:
      return None
    if not (_names(package, public) or _is_inside(public) or _other_name(package, public)):
      raise absent.AbsentModuleError(fullname, package)
    return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

  def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
    return Module(spec.name)

  def exec_module(self, module: types.ModuleType) -> None:
    """Adds the names of this package's own modules: programs read the module's __dict__."""
    package, public = _split(module.__name__)
    names = _tables[package].get(public, Names())
    for one in names.own:
      vars(module).update(_public(_module(one)))
    # v1.keras.layers is v2.keras.layers: programs compare modules, and change them.
    is_only = len(names.modules) == 1 and not (names.own or names.homes or names.constants)
    if is_only and _split(names.modules[0])[0] in {*_tables} - {package}:
      sys.modules[module.__name__] = importlib.import_module(names.modules[0])


def add(
  package: str, modules: Mapping[str, Names]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
  """Makes the modules of a package importable.

  Args:
    package: its `__name__`.
    modules: name without the package → the module's names; "" is the package itself.

  Returns:
    The package's own (`__getattr__`, `__dir__`).
  """
  _tables[package] = modules
  if not any(isinstance(one, Finder) for one in sys.meta_path):
    sys.meta_path.insert(0, Finder())
  return functools.partial(value, package), functools.partial(names_of, package)


def value(module: str, name: str) -> Any:
  """Returns the value of a name in a module, given by its full name.

  Raises:
    AbsentNameError: no module has the name.
  """
  package, public = _split(module)
  table = _tables[package]
  names = _names(package, public) or Names()
  if name in names.constants:
    return names.constants[name]
  if name == "__all__":  # of `from trainer.compat.v1 import *`
    return [one for one in names_of(module) if not one.startswith("_") and _has(module, one)]
  full = f"{public}.{name}".lstrip(".")
  if name in names.homes:
    try:
      return _of_home(*names.homes[name])
    except ModuleNotFoundError as error:  # a package is missing
      raise absent.AbsentNameError(full, str(error), package) from error
  if name.startswith("__") and name != "__internal__":
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
  if other := _other_name(package, public):
    return getattr(importlib.import_module(f"{package}.{other}"), name)
  if inside := _INSIDE.fullmatch(public):
    return _value_inside(package, inside, full, name)
  if full in table or (name == "python" and _is_inside(full)):
    return importlib.import_module(f"{package}.{full}")
  if not absent_names.is_known(full):
    for original in names.modules:
      found = _of(original, name)
      if found is not _MISSING:
        return found
  raise absent.AbsentNameError(full, package=package)


def _names(package: str, public: str) -> Names | None:
  """Returns the names of a module of a table, or else of TensorFlow: `trainer.compat.v1.signal`."""
  table = _tables[package]
  if public in table or absent_names.is_known(public):
    return table.get(public)
  found = [f"{one}.{public}" for one in table[""].modules if _is_module(f"{one}.{public}")]
  return Names(*found) if found else None


@functools.cache
def _is_module(dotted: str) -> bool:
  try:
    return isinstance(_module(dotted), types.ModuleType)
  except (AttributeError, ImportError):
    return False


def _has(module: str, name: str) -> bool:
  try:
    value(module, name)
  except AttributeError:
    return name in vars(sys.modules[module])
  return True


def names_of(module: str) -> list[str]:
  """Returns the names of a module, given by its full name."""
  package, public = _split(module)
  names = _names(package, public) or Names()
  below = f"{public}.".lstrip(".")
  inner = {one.removeprefix(below) for one in _tables[package] if one.startswith(below)}
  found = {*names.homes, *names.constants, *(one for one in inner if one and "." not in one)}
  found.update(vars(sys.modules[module]))
  for original in names.modules:
    found.update(dir(_module(original)))
  return sorted(found)


def _value_inside(package: str, inside: re.Match, full: str, name: str) -> Any:
  """Returns a name of a module inside of one of contrib's."""
  outer, depth = importlib.import_module(f"{package}.{inside[1]}"), inside[2].count(".")
  own = getattr(outer, inside[2].rpartition(".")[2], None) if depth else None
  if isinstance(own, types.ModuleType) and hasattr(own, name):
    return getattr(own, name)  # such as tpu_function of contrib.tpu
  found = getattr(outer, name, None) if depth else None
  # tf_slim's modules have TensorFlow's modules among their names, such as `variables`.
  is_tensorflows = isinstance(found, types.ModuleType) and found.__name__.startswith("tensorflow.")
  if found is not None and not is_tensorflows:
    return found
  if depth < _DEPTH and name.islower():
    return importlib.import_module(f"{package}.{full}")
  raise absent.AbsentNameError(full)


def _is_inside(public: str) -> bool:
  found = _INSIDE.fullmatch(public)
  # Programs import classes from these modules, too, and no module has a capital.
  return found is not None and found[2].count(".") <= _DEPTH and public.islower()


def _other_name(package: str, public: str) -> str | None:
  """Returns "contrib.slim.nets.vgg" for "contrib.slim.python.slim.nets.vgg", if it exists."""
  found = _INSIDE.fullmatch(public)
  inner = found[2].split(".")[2:] if found else []
  name = ".".join([found[1], *inner]) if found and inner else None
  return name if name in _tables[package] else None


def _split(module: str) -> tuple[str, str]:
  """Splits a full name, e.g. into ("trainer.compat.v1", "contrib.layers")."""
  parts = module.split(".")
  return ".".join(parts[:3]), ".".join(parts[3:])


_MISSING = object()


def _module(dotted: str) -> Any:
  """Returns a module by its public name; not all public names of TensorFlow are importable."""
  if dotted.startswith("."):
    return importlib.import_module(_COMPAT + dotted)
  root, *rest = dotted.split(".")
  if root != "tensorflow" or rest[:1] == ["python"]:
    return importlib.import_module(dotted)
  found = importlib.import_module(root)
  for name in rest:
    found = getattr(found, name)
  return found


def _public(module: types.ModuleType) -> dict[str, Any]:
  """Returns a module's public names: those in `__all__`, or its own definitions."""
  if hasattr(module, "__all__"):
    return {name: getattr(module, name) for name in module.__all__}
  return {
    name: found
    for name, found in vars(module).items()
    if not name.startswith("_") and _is_defined(module, found)
  }


def _is_defined(module: types.ModuleType, found: Any) -> bool:
  """Returns whether a module defines a value itself, not by an import."""
  if isinstance(found, types.FunctionType | type):
    return found.__module__ == module.__name__
  return getattr(found, "__module__", "") not in ("collections.abc", "typing") and not isinstance(
    found, types.ModuleType
  )


def _of_home(home: str, name: str) -> Any:
  found = getattr(_module(home), name, _MISSING)
  dotted = _COMPAT + home if home.startswith(".") else home
  return importlib.import_module(f"{dotted}.{name}") if found is _MISSING else found


def _of(original: str, name: str) -> Any:
  try:
    return getattr(_module(original), name)
  except AttributeError:
    return _MISSING
  except ImportError as error:  # such as names of Keras 2
    raise absent.AbsentNameError(f"{original}.{name}", _why_no_import(error)) from error


def _why_no_import(error: ImportError) -> str:
  """Returns the reason, with the pip command if a package is missing."""
  if isinstance(error, ModuleNotFoundError) and error.name:
    package = error.name.partition(".")[0].replace("_", "-")
    return f"it needs a missing package: pip install {package}"
  return str(error)
