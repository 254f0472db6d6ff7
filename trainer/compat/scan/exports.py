"""Names of TensorFlow that files of a program import from each other.

`from utils import *`, `from .x import tf`, and packages whose `__init__` re-exports such names.
"""

import ast
import builtins
import dataclasses
import functools
import pathlib
import sys
from collections.abc import Iterator, Sequence
from importlib import util
from typing import Any

from trainer.compat.scan import source as source_lib
from trainer.compat.scan import uses, verdicts
from trainer.compat.scan.source import Source, Taken
from trainer.compat.scan.values import FILE, INSIDE, V1, V2, Bound, Files

_STAR = "*"


def linked(sources: Sequence[Source]) -> list[Source]:
  """Returns the files, with uses of names that come from other files or from stars."""
  by_path = {source.path.resolve(): source for source in sources}
  bound = _bound(by_path)
  files = {str(path): names for path, names in bound.items()}
  names = {path: bound[path] | _of_stars(path, by_path, bound) for path in by_path}
  loose = _loose(by_path, names, files)
  found = []
  for path, source in by_path.items():
    if loose or names[path].keys() - source.bound.keys():
      own = [use for use in source.uses if use.api == INSIDE]
      given = uses.found(source.tree, names[path], own, files, loose)
      source = dataclasses.replace(source, uses=given)
    found.append(source)
  return found


def _loose(
  by_path: dict[pathlib.Path, Source], names: dict[pathlib.Path, Bound], files: Files
) -> Bound:
  """Returns attribute → a module that lacks names, for attributes that any file sets."""
  return {
    attribute: value
    for path, source in by_path.items()
    for key, value in uses.attributes(source.tree, names[path], files).items()
    if value[1] != FILE and verdicts.is_incomplete(*value)
    if (attribute := key.rpartition(".")[2].removesuffix("()"))
  }


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


# ------------------------------------------------------------------ bindings


def _bound(by_path: dict[pathlib.Path, Source]) -> dict[pathlib.Path, Bound]:
  """Returns the meaning of the names at the top of each file."""
  bound: dict[pathlib.Path, Bound] = {path: _modules(path, by_path) for path in by_path}
  for path, source in by_path.items():
    bound[path] |= source.bound
  waiting = True
  while waiting:  # a name may pass through several files
    waiting = False
    files = {str(path): names for path, names in bound.items()}
    for path, source in by_path.items():
      found = dict(_taken(path, source, by_path, bound))
      found |= uses.aliases(source.tree, found | bound[path], files)
      new = {name: value for name, value in found.items() if name not in bound[path]}
      bound[path] |= new
      waiting = waiting or bool(new)
  return bound


def _modules(path: pathlib.Path, known: Any) -> Bound:
  """Returns the modules of a package, by its `__init__`."""
  if path.name != "__init__.py":
    return {}
  inner = (one for one in known if one != path)
  of_folder = {one.stem: one for one in inner if one.parent == path.parent}
  packages = {
    one.parent.name: one
    for one in known
    if one.name == "__init__.py" and one.parent.parent == path.parent
  }
  return {name: (str(one), FILE) for name, one in (of_folder | packages).items()}


def _taken(
  path: pathlib.Path, source: Source, known: dict[pathlib.Path, Source], bound: dict
) -> Iterator[tuple[str, tuple[str, str]]]:
  """Yields the bindings in a file of imports from other files."""
  for one in source.taken:
    module = file_of(path, one.dots, one.module, known) if one.module or one.dots else None
    if one.name == _STAR:
      hidden = uses.names(source.tree) if module else set()
      for name, value in bound[module].items() if module else ():
        if not name.startswith("_") and "." not in name and name not in hidden:
          yield name, value
    elif not one.name:
      if module:
        # `import a.b` binds `a`; a namespace package has no file, so "a.b" is the name.
        yield one.bound, (str(module), FILE)
      root = file_of(path, 0, one.bound.split(".")[0], known)
      if "." in one.bound and root:
        yield one.bound.split(".")[0], (str(root), FILE)
    elif module and {one.name, f"{one.name}()"} & bound[module].keys():
      for end in ("", "()"):
        if f"{one.name}{end}" in bound[module]:
          yield f"{one.bound}{end}", bound[module][f"{one.name}{end}"]
    elif inner := file_of(path, one.dots, f"{one.module}.{one.name}".strip("."), known):
      yield one.bound, (str(inner), FILE)


# ------------------------------------------------------------------ stars of TensorFlow's modules


def _of_stars(path: pathlib.Path, known: dict[pathlib.Path, Source], bound: dict) -> Bound:
  """Returns the meaning of names that only stars of TensorFlow's modules bind in a file."""
  stars, others, supplied = _stars(path, known, set())
  if not stars:
    return {}
  tree = known[path].tree
  loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
  free = loaded - supplied - bound[path].keys() - {*dir(builtins), "__file__"}
  found = {name: _of_star(name, stars, len(stars) == 1 and not others) for name in free}
  return {name: value for name, value in found.items() if value is not None}


def _stars(
  path: pathlib.Path, known: dict[pathlib.Path, Source], seen: set[pathlib.Path]
) -> tuple[list[tuple[str, str]], bool, set[str]]:
  """(The modules of TensorFlow whose names a file has by stars, whether it has stars of unknown
  modules, all other names that it has).
  """
  seen.add(path)
  stars, others, supplied = [], False, uses.names(known[path].tree)
  for one in known[path].taken:
    module = file_of(path, one.dots, one.module, known) if one.name == _STAR else None
    if one.name == _STAR and module and module not in seen:
      inner = _stars(module, known, seen)
      stars, others, supplied = [*stars, *inner[0]], others or inner[1], supplied | inner[2]
    elif one.name == _STAR and not module:
      target, api = source_lib.target_of(one.module)
      if target is None and one.module.startswith("tensorflow."):
        target, api = one.module, INSIDE
      if target is None:
        others = True
      else:
        stars.append((target, api))
  return stars, others, supplied


def _of_star(name: str, stars: list[tuple[str, str]], is_sure: bool) -> tuple[str, str] | None:
  """Returns the name of a module behind a bare name; None if no module has it.

  Args:
    is_sure: whether no other module can have it.
  """
  from trainer.compat.names import absent_names

  for target, api in stars:
    full = f"{target}.{name}".strip(".")
    packages = [api] if api else [V1, V2]
    there = any(verdicts.of(full, one).status != verdicts.ABSENT for one in packages)
    if is_sure or there or absent_names.is_known(full):
      return full, api
  return None
