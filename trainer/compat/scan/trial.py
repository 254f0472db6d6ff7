"""Imports the modules of programs, each in its own process, to find failures."""

import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence

from trainer.cli import processes
from trainer.compat.scan import source as source_lib

_SECONDS = 300.0  # an import runs a script's top level: stop scripts that train

# The arguments: the folder for imports, the file, and its dotted name in a package.
_IMPORT = """
import importlib, sys
from importlib import util
from octet_trainer import run
folder, path, name = sys.argv[1:]
sys.argv[1:] = []
sys.path.insert(0, folder)
run.prepare(folder)
found = run.name_of(name)
if "." in found:
  importlib.import_module(found)
else:  # whatever else has this name
  spec = util.spec_from_file_location(name, path)
  sys.modules[name] = module = util.module_from_spec(spec)
  spec.loader.exec_module(module)
"""


def failures(
  sources: Sequence[source_lib.Source],
  roots: Sequence[str],
  run: Callable[..., int | None] = processes.run_command,
) -> dict[str, str]:
  """Imports the modules that use TensorFlow.

  Args:
    sources: the files, with their imports already changed.
    roots: the given files and folders; the folders are also for imports.
    run: function that runs a command.

  Returns:
    Path → why the import failed.
  """
  found = {}
  for source in sources:
    if (source.imports or source.uses) and (why := _why_not(source.path.absolute(), roots, run)):
      found[str(source.path)] = why
  return found


def _why_not(path: pathlib.Path, roots: Sequence[str], run: Callable[..., int | None]) -> str:
  """Returns the last line of a failing import's output; "" if it succeeds."""
  folder, names = path.parent, [] if path.stem == "__init__" else [path.stem]
  while (folder / "__init__.py").exists() and folder.name.isidentifier():
    folder, names = folder.parent, [folder.name, *names]
  if len(names) == 1 and path.stem == "__init__":
    names.append("__init__")
  folders = [str(pathlib.Path(root).absolute()) for root in roots if pathlib.Path(root).is_dir()]
  python = [sys.executable, "-c", f"import sys\nsys.path[1:1] = {folders!r}{_IMPORT}"]
  with tempfile.TemporaryFile() as output:
    code = run([*python, str(folder), str(path), ".".join(names)], output, _SECONDS, {})
    output.seek(0)
    lines = output.read().decode(errors="replace").strip().splitlines()
  if code is None:
    return f"it did not end within {_SECONDS:g} s"
  return (lines or [processes.how_it_ended(code)])[-1] if code else ""
