"""Modules that have names of their own and, behind these, those of TensorFlow's modules.

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.train",))
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer.compat.names import absent, absent_names


def package_of(module: str) -> str:
  """`trainer.compat.v1` or `trainer.compat.v2`, of the name of a module in one of them."""
  return ".".join(module.split(".")[:3])


def behind(
  module: str,
  originals: Sequence[str] = (),
  submodules: Sequence[str] = (),
  homes: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
  """Makes a module's `__getattr__` and `__dir__`.

  Args:
    module: its `__name__`.
    originals: dotted names of TensorFlow's modules that are asked in turn for what it lacks.
    submodules: its own submodules, which are imported when they are first asked for.
    homes: dict of name → the module that has it.

  Returns:
    (`__getattr__`, `__dir__`).
  """
  homes = dict(homes or {})
  package = package_of(module)
  # A package, though one without files: of a package, `from ... import name` looks for a module if
  # there is no such attribute, and absent.AbsentModules can say why there is none.
  vars(sys.modules[module]).setdefault("__path__", [])

  def get(name: str) -> Any:
    if name.startswith("__") and name not in homes:
      raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if name in submodules or (name == "python" and module.startswith(f"{package}.contrib.")):
      return importlib.import_module(f"{module}.{name}")
    if name in homes:
      return getattr(_module(homes[name]), name)
    public = f"{module}.{name}".removeprefix(f"{package}.")
    if not absent_names.is_known(public):
      for original in originals:
        found = _of(original, name)
        if found is not _MISSING:
          return found
    raise absent.AbsentNameError(public, package=package)

  def names() -> list[str]:
    found = {*submodules, *homes, *vars(importlib.import_module(module))}
    for original in originals:
      found.update(dir(_module(original)))
    return sorted(found)

  return get, names


_MISSING = object()


def _module(dotted: str) -> Any:
  """A module by its public name, which for those of TensorFlow is not always one to import."""
  root, *rest = dotted.split(".")
  if root != "tensorflow":
    return importlib.import_module(dotted)
  found = importlib.import_module(root)
  for name in rest:
    found = getattr(found, name)
  return found


def _of(original: str, name: str) -> Any:
  try:
    return getattr(_module(original), name)
  except AttributeError:
    return _MISSING
  except ImportError as error:  # as names of Keras 2 say it
    raise absent.AbsentNameError(f"{original}.{name}", str(error)) from error
