"""python -m octet_trainer.run PROGRAM [ARGS]: runs a program with its own module `trainer`.

    python -m octet_trainer.run train.py --model_dir=out     # in place of: python train.py ...
    python -m octet_trainer.run -m trainer.task --epochs=1   # in place of: python -m trainer.task

Python knows one module by a name, but such a program means two: `import trainer.compat.v1` is
Octet's, `from trainer import model` the program's own. Here Octet's files get Octet's package. All
other files get the program's package, under the name `octet_program.trainer` in sys.modules. What
the program's package does not have, as `trainer.compat`, is Octet's for all.

For an import by a string, as `importlib.import_module("trainer.model")`, the two look alike: it
finds Octet's.
"""

import builtins
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

import octet_trainer

_NAME = "trainer"
_HOME = "octet_program"  # the package around the program's own one
_find = importlib.machinery.PathFinder.find_spec


class _Importer:
  """Replaces Python's `__import__`: all files except Octet's find the program's own `trainer`."""

  def __init__(self, own: importlib.machinery.ModuleSpec) -> None:
    self._folders = own.submodule_search_locations
    self._import = builtins.__import__

  def __call__(
    self,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
  ) -> types.ModuleType:
    if level or not self.is_own(name) or _is_octets(globals or {}):
      return self._import(name, globals, locals, fromlist or (), level)
    found = self._import(f"{_HOME}.{name}", globals, locals, fromlist or ())
    # `import trainer.model` binds the first name, here the second part.
    return found if fromlist else sys.modules[f"{_HOME}.{_NAME}"]

  def is_own(self, name: str) -> bool:
    """Returns whether a module is the program's, without importing anything."""
    root, *inner = name.split(".")
    if root != _NAME or not inner:
      return root == _NAME
    return self._folders is not None and _find(inner[0], list(self._folders)) is not None


def _is_octets(importer: Mapping[str, Any]) -> bool:
  """Returns whether the module with these globals is Octet's."""
  name = importer.get("__package__") or importer.get("__name__") or ""
  return name.partition(".")[0] in (_NAME, octet_trainer.__name__)


def _own(path: Sequence[str]) -> tuple[str, importlib.machinery.ModuleSpec] | None:
  """Returns the first folder of a path with another `trainer` than Octet's, and its spec."""
  for folder in path:
    spec = _find(_NAME, [folder or os.getcwd()])
    if spec is not None and str(octet_trainer.OCTET) not in map(
      os.path.realpath, spec.submodule_search_locations or ()
    ):
      return folder or os.getcwd(), spec
  return None


def prepare(folder: str) -> None:
  """Makes imports find Octet, and a program's own modules in a folder. Call it once a process."""
  octet_trainer.import_octet()
  sys.path[0] = folder
  found = _own(sys.path)
  if found is None:
    return
  folder, spec = found
  home = types.ModuleType(_HOME)
  home.__path__ = [folder]
  sys.modules[_HOME] = home
  builtins.__import__ = _Importer(spec)  # once, for as long as the program runs


def name_of(module: str) -> str:
  """Returns the name in sys.modules for a program's name of a module."""
  importer = builtins.__import__
  is_own = isinstance(importer, _Importer) and importer.is_own(module)
  return f"{_HOME}.{module}" if is_own else module


def main(argv: list[str]) -> None:
  """Runs the program of the arguments."""
  is_module = argv[1:2] == ["-m"]
  arguments = argv[2:] if is_module else argv[1:]
  if not arguments or arguments[0] in ("-h", "--help"):
    sys.exit(str(__doc__))
  program = arguments[0]
  if not is_module and not os.path.exists(program):
    sys.exit(f"{program}: there is no such file. A module is run by: -m {program}")
  sys.argv[:] = arguments
  prepare(os.getcwd() if is_module else os.path.dirname(os.path.abspath(program)))
  if is_module:
    runpy.run_module(name_of(program), run_name="__main__", alter_sys=True)
  else:
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
  main(sys.argv)
