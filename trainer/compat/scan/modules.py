"""Finds the files and the packages that the files of a program import."""

import functools
import pathlib
import sys
from collections.abc import Iterator, Sequence
from importlib import util
from typing import Any

from trainer.compat.scan import source as source_lib
from trainer.compat.scan.source import Source, Taken

_STAR = "*"


def file_of(importer: pathlib.Path, dots: int, name: str, known: Any) -> pathlib.Path | None:
  """Returns the known file of a module that a file imports with dots before its name."""
  parts = name.split(".") if name else []
  folders = [importer.parents[dots - 1]] if dots else list(importer.parents)
  for folder in folders:
    place = folder.joinpath(*parts)
    for path in (place.with_suffix(".py") if parts else None, place / "__init__.py"):
      if (parts or dots) and path in known and path != importer:
        return path
  return None


def files_of(importer: pathlib.Path, taken: Taken, known: Any) -> Iterator[pathlib.Path]:
  """Returns the known files that an import runs: the module's, and an imported submodule's."""
  inner = None
  if taken.name not in ("", _STAR):
    inner = file_of(importer, taken.dots, f"{taken.module}.{taken.name}".strip("."), known)
  # `from . import layers` runs the package's __init__ too, but takes nothing from it.
  outer = file_of(importer, taken.dots, taken.module, known) if taken.module or not inner else None
  yield from filter(None, (outer, inner))


def missing(sources: Sequence[Source]) -> dict[str, list[str]]:
  """Returns packages neither installed nor among the files: name → where files import them."""
  known = {source.path.resolve() for source in sources}
  folders = {folder for path in known for folder in path.parents}
  found: dict[str, list[str]] = {}
  for source in sources:
    for one in source.taken:
      root = one.module.split(".")[0]
      is_own = one.dots or source_lib.target_of(one.module, one.name)[0] is not None
      absent = None if is_own or one.is_guarded else _not_installed(one.module, one.name)
      if absent is None:
        continue
      path = source.path.resolve()
      # A folder without Python files of its own is a package too.
      if not any(folder / root in folders for folder in path.parents) and not any(
        file_of(path, 0, name, known) for name in (root, one.module)
      ):
        found.setdefault(absent, []).append(f"{source.path}:{one.line}")
  return found


@functools.cache
def _not_installed(module: str, name: str) -> str | None:
  """Returns the package that an import lacks; None if it is installed.

  Several packages share a namespace, such as `google`: with protobuf alone there is a package
  `google` and no `google.cloud.storage`.
  """
  parts = [*module.split("."), *([name] if name not in ("", _STAR) else [])]
  for end in range(1, len(parts) + 1):
    package = ".".join(parts[:end])
    try:
      spec = util.find_spec(package)
    except (ImportError, ValueError):  # a module that a program put into sys.modules has no spec
      return None if package in sys.modules else package
    if spec is None:
      return package
    if spec.origin is not None:  # no namespace: find_spec would import it to look further
      break
  return None
